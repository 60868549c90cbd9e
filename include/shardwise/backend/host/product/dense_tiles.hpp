#pragma once

#include <shardwise/backend/host/product/task.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline v0_2_0 {

namespace detail {

/// Inputs whose products are summed before they are added to the result: what fixes the order of summation of dense weights.
/// 12 rows of activations of this length (12 KiB) stay in the first-level cache beside the panels that stream through it.
inline constexpr std::int64_t tile_inputs = 256;
/// Rows of a tile at most, and panels of a tile.
inline constexpr std::int64_t most_tile_rows = 12;
inline constexpr std::int64_t tile_panels = 2;
/// Distance of rows that were copied next to each other: the 16 floats more keep them out of the same cache set.
inline constexpr std::int64_t copied_stride = tile_inputs + 16;
/// More rows than this are copied, tile by tile.
inline constexpr std::int64_t direct_rows = 16;
/// Rows and panels that are worked on together: their activations (384 KiB) and their weights (128 KiB as floats) stay in
/// a second-level cache of 1 MiB; results of 384 x 512 are touched again for every tile_inputs.
inline constexpr std::int64_t block_rows = 384;
inline constexpr std::int64_t block_panels = 8;
inline constexpr std::int64_t result_panels = 32;

/// A tile of a product: some rows by two panels, up to tile_inputs inputs.
///
/// Shapes  in [rows, inputs], out [rows, outputs]
struct TileTask {
    float const* in = nullptr;
    std::int64_t in_stride = 0;
    std::byte const* panels[tile_panels] = {};
    std::int64_t inputs = 0;
    /// Outputs of each panel that are written.
    std::int64_t outputs[tile_panels] = {};
    float* out = nullptr;
    std::int64_t out_stride = 0;
    /// Adds to what `out` holds.
    bool accumulates = false;
};

using TileKernel = void (*)(TileTask const&);

/// The tiles of a format at one level: `rows[i]` computes i + 1 rows.
struct TileKernels {
    std::array<TileKernel, most_tile_rows> rows{};
    /// The largest number of rows for which there is a kernel.
    std::int64_t most_rows = 0;
    /// Bytes of one input in a panel.
    std::int64_t input_bytes = 0;
};

/// The panels of one step of run_tiles.
struct TileRange {
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
    std::int64_t panel = 0;
    std::int64_t first_input = 0;
    std::int64_t inputs = 0;
};

/// Multiplies some rows, at most as many as the kernels have, by two panels (or by the last one).
inline void run_tile(ProductTask const& task, TileKernels const& kernels, std::int64_t stride, TileRange const& range,
                     float const* in, std::int64_t in_stride) {
    TileTask tile{.in = in, .in_stride = in_stride, .inputs = range.inputs};
    for (std::int64_t i = 0; i < tile_panels; ++i) {
        // A second panel that is not there is computed as the first and not written.
        auto const panel = range.panel + i < task.last_panel ? range.panel + i : range.panel;
        tile.panels[i] = task.weight.data + panel * stride + range.first_input * kernels.input_bytes;
        auto const outputs = task.weight.outputs - (range.panel + i) * panel_outputs;
        tile.outputs[i] = range.panel + i < task.last_panel ? std::min(outputs, panel_outputs) : 0;
    }
    tile.out = task.out + range.first_row * task.out_stride + range.panel * panel_outputs;
    tile.out_stride = task.out_stride;
    tile.accumulates = range.first_input > 0;
    kernels.rows[static_cast<std::size_t>(range.rows - 1)](tile);
}

/// The end of the tile that begins at `row`: tiles of `rows` rows in all are as equal as can be.
[[nodiscard]] inline std::int64_t tile_end(std::int64_t row, std::int64_t rows, std::int64_t most_rows) {
    auto const tiles = ceil_divide(rows - row, most_rows);
    return row + ceil_divide(rows - row, tiles);
}

/// Few rows: weights stream past once, activations are read where they are.
inline void run_direct(ProductTask const& task, TileKernels const& kernels, std::int64_t stride) {
    // Eight rows whose distance is a power of two fill the ways of a first-level cache.
    auto const most_rows = std::min<std::int64_t>(kernels.most_rows, 8);
    for (auto panel = task.first_panel; panel < task.last_panel; panel += tile_panels) {
        for (std::int64_t k = 0; k < task.weight.inputs; k += tile_inputs) {
            auto const count = std::min(tile_inputs, task.weight.inputs - k);
            for (std::int64_t row = 0; row < task.rows;) {
                auto const end = tile_end(row, task.rows, most_rows);
                run_tile(task, kernels, stride, {row, end - row, panel, k, count}, task.in + row * task.in_stride + k,
                         task.in_stride);
                row = end;
            }
        }
    }
}

/// Many rows: blocks of rows, panels and inputs that stay in the caches.
inline void run_blocked(ProductTask const& task, TileKernels const& kernels, std::int64_t stride) {
    alignas(64) float copied[most_tile_rows * copied_stride];
    for (std::int64_t first_row = 0; first_row < task.rows; first_row += block_rows) {
        auto const last_row = std::min(first_row + block_rows, task.rows);
        for (auto outer = task.first_panel; outer < task.last_panel; outer += result_panels) {
            auto const outer_end = std::min(outer + result_panels, task.last_panel);
            for (std::int64_t k = 0; k < task.weight.inputs; k += tile_inputs) {
                auto const count = std::min(tile_inputs, task.weight.inputs - k);
                for (auto block = outer; block < outer_end; block += block_panels) {
                    auto const block_end = std::min(block + block_panels, outer_end);
                    for (auto row = first_row; row < last_row;) {
                        auto const end = tile_end(row, last_row, kernels.most_rows);
                        for (auto i = row; i < end; ++i) {
                            std::memcpy(copied + (i - row) * copied_stride, task.in + i * task.in_stride + k,
                                        static_cast<std::size_t>(count) * sizeof(float));
                        }
                        for (auto panel = block; panel < block_end; panel += tile_panels) {
                            run_tile(task, kernels, stride, {row, end - row, panel, k, count}, copied, copied_stride);
                        }
                        row = end;
                    }
                }
            }
        }
    }
}

/// A product of dense weights. Every element is the sum, in order, of the sums of tile_inputs products in order.
///
/// Memory  14 KiB of stack
inline void run_tiles(ProductTask const& task, TileKernels const& kernels) {
    if (task.weight.inputs == 0) {
        auto const begin = task.first_panel * panel_outputs;
        auto const end = std::min(task.last_panel * panel_outputs, task.weight.outputs);
        for (std::int64_t row = 0; row < task.rows; ++row) {
            std::fill(task.out + row * task.out_stride + begin, task.out + row * task.out_stride + end, 0.0F);
        }
        return;
    }
    auto const stride = *panel_bytes(task.weight.format, task.weight.inputs, task.weight.group);
    if (task.rows <= direct_rows) {
        run_direct(task, kernels, stride);
    } else {
        run_blocked(task, kernels, stride);
    }
}

}  // namespace detail

}  // namespace shardwise::inline v0_2_0
