// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Panels of the second factor that are packed at a time: 256 KiB of a thread's stack, which stay in a second-level cache. Rows of
/// the first factor are copied once for each pack: with 6 panels the copies cost a tenth of a product (2048 x 512 x 1408, Zen 4).
inline constexpr std::int64_t gemm_panels = 16;

/// A factor as memory holds it.
struct GemmFactor {
    std::byte const* data = nullptr;
    /// Bytes from one row of memory to the next, and of one element.
    std::int64_t row_bytes = 0;
    std::int64_t element_bytes = 0;
    bool is_transposed = false;
    /// Turns `count` neighbours into floats.
    void (*widen)(std::byte const* from, std::int64_t count, float* to) = nullptr;
    /// Floats that are rounded to bf16.
    bool is_rounded = false;

    [[nodiscard]] std::byte const* at(std::int64_t row, std::int64_t column) const {
        return data + row * row_bytes + column * element_bytes;
    }
    /// `count` neighbours as they are multiplied.
    void read(std::byte const* from, std::int64_t count, float* to) const {
        widen(from, count, to);
        round(to, count);
    }
    /// Rounds floats that are multiplied, where that is asked for.
    void round(float* values, std::int64_t count) const {
        if (!is_rounded) return;
        for (std::int64_t i = 0; i < count; ++i) values[i] = from_bf16(to_bf16(values[i]));
    }
};

/// Some rows and panels of out [m, n] = a [m, k] * b [k, n].
struct GemmTask {
    GemmFactor a;
    GemmFactor b;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    float* out = nullptr;
    std::int64_t out_stride = 0;
    bool accumulates = false;
};

/// What of a tile was copied: so many rows by so many inputs.
struct CopiedTile {
    std::int64_t rows = 0;
    std::int64_t inputs = 0;
};

/// Copies what it can of a transposed factor of floats, in squares of 4 by 4: element by element the copy costs as much as half of
/// the product does.
inline CopiedTile transpose_gemm_rows([[maybe_unused]] GemmFactor const& a, [[maybe_unused]] std::int64_t row,
                                      [[maybe_unused]] std::int64_t rows, [[maybe_unused]] std::int64_t k,
                                      [[maybe_unused]] std::int64_t count, [[maybe_unused]] float* copied) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (a.element_bytes != std::int64_t{sizeof(float)}) return {};
    CopiedTile const done{rows / 4 * 4, count / 4 * 4};
    for (std::int64_t j = 0; j < done.inputs; j += 4) {
        float const* from[4];
        for (std::int64_t i = 0; i < 4; ++i) from[i] = reinterpret_cast<float const*>(a.at(k + j + i, row));
        for (std::int64_t i = 0; i < done.rows; i += 4) {
            auto first = _mm_loadu_ps(from[0] + i);
            auto second = _mm_loadu_ps(from[1] + i);
            auto third = _mm_loadu_ps(from[2] + i);
            auto fourth = _mm_loadu_ps(from[3] + i);
            _MM_TRANSPOSE4_PS(first, second, third, fourth);
            auto* const to = copied + i * copied_stride + j;
            _mm_storeu_ps(to, first);
            _mm_storeu_ps(to + copied_stride, second);
            _mm_storeu_ps(to + 2 * copied_stride, third);
            _mm_storeu_ps(to + 3 * copied_stride, fourth);
        }
    }
    return done;
#else
    return {};
#endif
}

/// Rows [row, row + rows) and inputs [k, k + count) of the first factor, rows copied_stride apart.
inline void copy_gemm_rows(GemmFactor const& a, std::int64_t row, std::int64_t rows, std::int64_t k, std::int64_t count,
                           float* copied) {
    if (!a.is_transposed) {
        for (std::int64_t i = 0; i < rows; ++i) a.read(a.at(row + i, k), count, copied + i * copied_stride);
        return;
    }
    auto const done = transpose_gemm_rows(a, row, rows, k, count, copied);
    for (std::int64_t i = 0; i < done.rows; ++i) a.round(copied + i * copied_stride, done.inputs);
    float values[max_tile_rows];
    for (std::int64_t j = 0; j < count; ++j) {
        auto const first = j < done.inputs ? done.rows : 0;
        if (first == rows) continue;
        a.read(a.at(k + j, row + first), rows - first, values);
        for (std::int64_t i = first; i < rows; ++i) copied[i * copied_stride + j] = values[i - first];
    }
}

/// Columns [column, column + columns) and inputs [k, k + count) of the second factor as panels, the last filled with zeros.
///
/// Shapes  packed [ceil(columns / panel_outputs), tile_inputs, panel_outputs]
inline void pack_gemm_panels(GemmFactor const& b, std::int64_t column, std::int64_t columns, std::int64_t k,
                             std::int64_t count, float* packed) {
    constexpr auto panel_floats = tile_inputs * panel_outputs;
    if (b.is_transposed) {
        float values[tile_inputs];
        for (std::int64_t i = 0; i < columns; ++i) {
            b.read(b.at(column + i, k), count, values);
            auto* const to = packed + i / panel_outputs * panel_floats + i % panel_outputs;
            for (std::int64_t j = 0; j < count; ++j) to[j * panel_outputs] = values[j];
        }
    } else {
        for (std::int64_t j = 0; j < count; ++j) {
            for (std::int64_t i = 0; i < columns; i += panel_outputs) {
                b.read(b.at(k + j, column + i), std::min(panel_outputs, columns - i),
                       packed + i / panel_outputs * panel_floats + j * panel_outputs);
            }
        }
    }
    for (auto i = columns; i % panel_outputs != 0; ++i) {
        auto* const to = packed + i / panel_outputs * panel_floats + i % panel_outputs;
        for (std::int64_t j = 0; j < count; ++j) to[j * panel_outputs] = 0.0F;
    }
}

/// The results of a product without inputs.
inline void clear_gemm(GemmTask const& task, std::int64_t first_row, std::int64_t last_row, std::int64_t first_panel,
                       std::int64_t last_panel) {
    if (task.accumulates) return;
    auto const begin = first_panel * panel_outputs;
    auto const end = std::min(last_panel * panel_outputs, task.n);
    for (auto row = first_row; row < last_row; ++row)
        std::fill(task.out + row * task.out_stride + begin, task.out + row * task.out_stride + end, 0.0F);
}

/// Rows [first_row, last_row) by panels [first_panel, last_panel) of a product of two plain matrices. Sums as run_tiles sums.
///
/// Memory  272 KiB of stack
inline void run_gemm(GemmTask const& task, TileKernels const& kernels, std::int64_t first_row, std::int64_t last_row,
                     std::int64_t first_panel, std::int64_t last_panel) {
    if (task.k == 0) return clear_gemm(task, first_row, last_row, first_panel, last_panel);
    alignas(64) float packed[gemm_panels * tile_inputs * panel_outputs];
    alignas(64) float copied[max_tile_rows * copied_stride];
    for (auto block = first_panel; block < last_panel; block += gemm_panels) {
        auto const column = block * panel_outputs;
        auto const columns = std::min(std::min(block + gemm_panels, last_panel) * panel_outputs, task.n) - column;
        for (std::int64_t k = 0; k < task.k; k += tile_inputs) {
            auto const count = std::min(tile_inputs, task.k - k);
            pack_gemm_panels(task.b, column, columns, k, count, packed);
            for (auto row = first_row; row < last_row;) {
                auto const end = tile_end(row, last_row, kernels.max_rows);
                copy_gemm_rows(task.a, row, end - row, k, count, copied);
                TileTask tile{.in = copied, .in_stride = copied_stride, .inputs = count};
                tile.out_stride = task.out_stride;
                tile.accumulates = k > 0 || task.accumulates;
                for (std::int64_t i = 0; i < columns; i += tile_panels * panel_outputs) {
                    auto const* const panel = packed + i * tile_inputs;
                    for (std::int64_t j = 0; j < tile_panels; ++j) {
                        auto const outputs =
                            std::clamp<std::int64_t>(columns - i - j * panel_outputs, 0, panel_outputs);
                        // A second panel that is not there is computed as the first and not written.
                        auto const place = outputs > 0 ? j * tile_inputs * panel_outputs : 0;
                        tile.panels[j] = reinterpret_cast<std::byte const*>(panel + place);
                        tile.outputs[j] = outputs;
                        tile.fetch[j] = tile.panels[j];
                    }
                    tile.out = task.out + row * task.out_stride + column + i;
                    kernels.rows[static_cast<std::size_t>(end - row - 1)](tile);
                }
                row = end;
            }
        }
    }
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
