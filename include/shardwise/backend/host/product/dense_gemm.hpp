// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/transpose_words.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Panels of the second factor that are packed at a time: 512 KiB of a thread's stack, which stay in a second-level cache. Rows of
/// the first factor are copied once for each pack: with 6 panels the copies cost a tenth of a product (2048 x 512 x 1408, Zen 4), with
/// 16 a twentieth (Sapphire Rapids).
inline constexpr std::int64_t gemm_panels = 32;
/// Rows of the first factor that are copied at a time, some tiles of them: of a transposed factor they are whole lines of a cache.
inline constexpr std::int64_t gemm_copied_rows = 4 * max_tile_rows;

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

/// Rows [row, row + rows) and inputs [k, k + count) of the first factor, rows copied_stride apart.
inline void copy_gemm_rows(GemmFactor const& a, std::int64_t row, std::int64_t rows, std::int64_t k, std::int64_t count,
                           float* copied) {
    if (!a.is_transposed) {
        for (std::int64_t i = 0; i < rows; ++i) a.read(a.at(row + i, k), count, copied + i * copied_stride);
        return;
    }
    if (a.element_bytes == std::int64_t{sizeof(float)}) {
        transpose_words(a.at(k, row), a.row_bytes, count, rows, reinterpret_cast<std::byte*>(copied),
                        copied_stride * std::int64_t{sizeof(float)});
        for (std::int64_t i = 0; i < rows; ++i) a.round(copied + i * copied_stride, count);
        return;
    }
    float values[gemm_copied_rows];
    for (std::int64_t j = 0; j < count; ++j) {
        a.read(a.at(k + j, row), rows, values);
        for (std::int64_t i = 0; i < rows; ++i) copied[i * copied_stride + j] = values[i];
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
        std::int64_t i = 0;
        if (b.element_bytes == std::int64_t{sizeof(float)}) {
            for (; i + panel_outputs <= columns; i += panel_outputs) {
                auto* const to = packed + i / panel_outputs * panel_floats;
                transpose_words(b.at(column + i, k), b.row_bytes, panel_outputs, count,
                                reinterpret_cast<std::byte*>(to), panel_outputs * std::int64_t{sizeof(float)});
                b.round(to, count * panel_outputs);
            }
        }
        for (; i < columns; ++i) {
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

/// One tile of copied rows by `columns` packed columns; tile.out is the first column of the first row.
inline void multiply_packed(TileTask tile, TileKernel kernel, float const* packed, std::int64_t columns) {
    for (std::int64_t i = 0; i < columns; i += tile_panels * panel_outputs) {
        auto const* const panel = packed + i * tile_inputs;
        for (std::int64_t j = 0; j < tile_panels; ++j) {
            auto const outputs = std::clamp<std::int64_t>(columns - i - j * panel_outputs, 0, panel_outputs);
            // A second panel that is not there is computed as the first and not written.
            auto const place = outputs > 0 ? j * tile_inputs * panel_outputs : 0;
            tile.panels[j] = reinterpret_cast<std::byte const*>(panel + place);
            tile.outputs[j] = outputs;
            tile.fetch[j] = tile.panels[j];
        }
        kernel(tile);
        tile.out += tile_panels * panel_outputs;
    }
}

/// Rows [first_row, last_row) by panels [first_panel, last_panel) of a product of two plain matrices. Sums as run_tiles sums.
///
/// Memory  564 KiB of stack
inline void run_gemm(GemmTask const& task, TileKernels const& kernels, std::int64_t first_row, std::int64_t last_row,
                     std::int64_t first_panel, std::int64_t last_panel) {
    if (task.k == 0) return clear_gemm(task, first_row, last_row, first_panel, last_panel);
    alignas(64) float packed[gemm_panels * tile_inputs * panel_outputs];
    alignas(64) float copied[gemm_copied_rows * copied_stride];
    auto const blocks = std::max<std::int64_t>(ceil_divide(last_panel - first_panel, gemm_panels), 1);
    auto const block_panels = round_up(ceil_divide(last_panel - first_panel, blocks), tile_panels);
    auto const group_rows = gemm_copied_rows / kernels.max_rows * kernels.max_rows;
    for (auto block = first_panel; block < last_panel; block += block_panels) {
        auto const column = block * panel_outputs;
        auto const columns = std::min(std::min(block + block_panels, last_panel) * panel_outputs, task.n) - column;
        for (std::int64_t k = 0; k < task.k; k += tile_inputs) {
            TileTask tile{.in_stride = copied_stride, .inputs = std::min(tile_inputs, task.k - k)};
            tile.out_stride = task.out_stride;
            tile.accumulates = k > 0 || task.accumulates;
            pack_gemm_panels(task.b, column, columns, k, tile.inputs, packed);
            for (auto row = first_row; row < last_row;) {
                auto const group_end = std::min(row + group_rows, last_row);
                copy_gemm_rows(task.a, row, group_end - row, k, tile.inputs, copied);
                tile.in = copied;
                while (row < group_end) {
                    auto const rows = tile_end(row, group_end, kernels.max_rows) - row;
                    tile.out = task.out + row * task.out_stride + column;
                    multiply_packed(tile, kernels.rows[static_cast<std::size_t>(rows - 1)], packed, columns);
                    tile.in += rows * copied_stride;
                    row += rows;
                }
            }
        }
    }
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
