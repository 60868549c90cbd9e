// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/task.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Inputs whose products are summed before they are added to the result: what fixes the order of summation of dense weights.
/// 12 rows of activations of this length (12 KiB) stay in the first-level cache beside the panels that stream through it.
inline constexpr std::int64_t tile_inputs = 256;
/// Rows of a tile at most, and panels of a tile.
inline constexpr std::int64_t max_tile_rows = 12;
inline constexpr std::int64_t tile_panels = 2;
/// Distance of rows that were copied next to each other: the 16 floats more keep them out of the same cache set.
inline constexpr std::int64_t copied_stride = tile_inputs + 16;
/// Rows of a tile that reads activations where they are: rows whose distance is a power of two fall into the same set of a
/// first-level cache, which has 8 ways.
inline constexpr std::int64_t direct_rows = 8;
/// Rows at most for which weights are read once, without regard to where results lie.
inline constexpr std::int64_t streamed_rows = 16;
/// Rows that are worked on together, whose activations (204 KiB) stay in a second-level cache of 1 MiB, and panels, whose results by these
/// rows (768 KiB) are touched again for every tile_inputs.
inline constexpr std::int64_t block_rows = 192;
inline constexpr std::int64_t result_panels = 64;

/// A tile of a product: some rows by two panels, up to tile_inputs inputs, or all where the kernel takes them.
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
    /// The first input is the second of a pair that shares its words.
    bool begins_within = false;
    /// What is brought into the second-level cache meanwhile: from each address as many bytes as are read of a panel.
    std::byte const* fetch[tile_panels] = {};
};

using TileKernel = void (*)(TileTask const&);

/// The tiles of a format at one level: `rows[i]` computes i + 1 rows.
struct TileKernels {
    std::array<TileKernel, max_tile_rows> rows{};
    /// The largest number of rows for which there is a kernel.
    std::int64_t max_rows = 0;
    /// Bytes of one input in a panel.
    std::int64_t input_bytes = 0;
    /// Up to so many rows the kernels take any number of inputs in one call.
    std::int64_t whole_rows = 0;
    /// Inputs that share words of 32 bits.
    std::int64_t pair = 1;
    /// Panels whose inputs stay in the first-level cache while many rows pass: those that a tile takes side by side.
    std::int64_t kept_panels = 1;
    /// The tiles of floats, by which many rows are multiplied, and what writes inputs of a panel, the first of which may be the second of
    /// a pair, as floats [inputs, panel_outputs]; null where tiles read elements as they are.
    TileKernels const* of_floats = nullptr;
    void (*widen)(std::byte const* panel, bool begins_within, std::int64_t inputs, float* out) = nullptr;
};

/// A dense product as run_tiles walks through it.
struct TileWalk {
    ProductTask const& task;
    TileKernels const& kernels;

    /// Where the words of an input of the weight lie.
    [[nodiscard]] std::byte const* at(std::int64_t panel, std::int64_t input) const {
        return task.weight.data + panel * task.weight.stride + (input - input % kernels.pair) * kernels.input_bytes;
    }
    /// What is read after the last inputs of the task: the next inputs of the panel, or `next` panels from their beginning.
    [[nodiscard]] std::byte const* behind(std::int64_t panel, std::int64_t next) const {
        return task.inputs.end < task.weight.inputs ? at(panel, task.inputs.end) : at(next, 0);
    }
};

/// Where a tile lies, and which panels come next: fetching them is shared out among the tiles that read the same panels.
struct TilePlace {
    std::int64_t first_row = 0;
    std::int64_t last_row = 0;
    std::int64_t panel = 0;
    std::int64_t first_input = 0;
    std::int64_t last_input = 0;
    /// Which of the tiles that read these panels it is.
    std::int64_t turn = 0;
    std::int64_t turns = 1;
    std::byte const* next = nullptr;
};

/// Multiplies some rows, at most as many as the kernels have, by two panels (or by the last one).
inline void run_tile(TileWalk const& walk, TilePlace const& place, float const* in, std::int64_t in_stride) {
    auto const& task = walk.task;
    TileTask tile{.in = in, .in_stride = in_stride, .inputs = place.last_input - place.first_input};
    for (std::int64_t i = 0; i < tile_panels; ++i) {
        // A second panel that is not there is computed as the first and not written.
        bool const is_there = place.panel + i < task.last_panel;
        auto const outputs = task.weight.outputs - (place.panel + i) * panel_outputs;
        tile.panels[i] = walk.at(is_there ? place.panel + i : place.panel, place.first_input);
        tile.outputs[i] = is_there ? std::min(outputs, panel_outputs) : 0;
        // One tile fetches both panels, the first two of several one each; the others find theirs fetched.
        auto const panel = place.turns == 1 ? i : place.turn;
        tile.fetch[i] = panel < tile_panels ? place.next + panel * task.weight.stride : tile.panels[i];
    }
    tile.out = task.out + place.first_row * task.out_stride + place.panel * panel_outputs;
    tile.out_stride = task.out_stride;
    tile.accumulates = place.first_input > task.inputs.begin;
    tile.begins_within = place.first_input % walk.kernels.pair != 0;
    walk.kernels.rows[static_cast<std::size_t>(place.last_row - place.first_row - 1)](tile);
}

/// The end of the tile that begins at `row`: tiles of `rows` rows in all are as equal as can be.
[[nodiscard]] inline std::int64_t tile_end(std::int64_t row, std::int64_t rows, std::int64_t max_rows) {
    auto const tiles = ceil_divide(rows - row, max_rows);
    return row + ceil_divide(rows - row, tiles);
}

/// Few rows: weights stream past once.
inline void run_streamed(TileWalk const& walk) {
    auto const& task = walk.task;
    auto const max_rows = std::min(walk.kernels.max_rows, direct_rows);
    auto const turns = ceil_divide(task.rows, max_rows);
    auto const step = task.rows <= walk.kernels.whole_rows ? task.inputs.size() : tile_inputs;
    for (auto panel = task.first_panel; panel < task.last_panel; panel += tile_panels) {
        for (auto k = task.inputs.begin; k < task.inputs.end; k += step) {
            auto const last = std::min(k + step, task.inputs.end);
            auto const* const next =
                last == task.inputs.end ? walk.behind(panel, panel + tile_panels) : walk.at(panel, last);
            std::int64_t turn = 0;
            for (std::int64_t row = 0; row < task.rows; ++turn) {
                auto const end = tile_end(row, task.rows, max_rows);
                run_tile(walk, {row, end, panel, k, last, turn, turns, next},
                         task.in + row * task.in_stride + (k - task.inputs.begin), task.in_stride);
                row = end;
            }
        }
    }
}

/// Many rows by one or two panels after others, whose elements become floats once for all rows of a block and stay in the first-level
/// cache while the rows, copied next to each other, pass.
///
/// Memory  241 KiB of stack
inline void run_blocked(TileWalk const& walk) {
    auto const& task = walk.task;
    auto const& kernels = walk.kernels.widen == nullptr ? walk.kernels : *walk.kernels.of_floats;
    auto const kept = walk.kernels.kept_panels;
    alignas(panel_alignment) float copied[block_rows * copied_stride];
    alignas(panel_alignment) float wide[tile_panels][tile_inputs * panel_outputs];
    for (std::int64_t first_row = 0; first_row < task.rows; first_row += block_rows) {
        auto const rows = std::min(block_rows, task.rows - first_row);
        for (auto outer = task.first_panel; outer < task.last_panel; outer += result_panels) {
            auto const outer_end = std::min(outer + result_panels, task.last_panel);
            for (auto k = task.inputs.begin; k < task.inputs.end; k += tile_inputs) {
                auto const count = std::min(tile_inputs, task.inputs.end - k);
                for (std::int64_t row = 0; row < rows; ++row) {
                    auto const* const from = task.in + (first_row + row) * task.in_stride + (k - task.inputs.begin);
                    std::memcpy(copied + row * copied_stride, from, static_cast<std::size_t>(count) * sizeof(float));
                }
                TileTask tile{.in_stride = copied_stride, .inputs = count};
                tile.out_stride = task.out_stride;
                tile.accumulates = k > task.inputs.begin;
                tile.begins_within = walk.kernels.widen == nullptr && k % walk.kernels.pair != 0;
                for (auto panel = outer; panel < outer_end; panel += kept) {
                    for (std::int64_t i = 0; i < tile_panels; ++i) {
                        // A second panel that is not there is computed as the first and not written.
                        bool const is_there = i < kept && panel + i < outer_end;
                        auto const at = is_there ? panel + i : panel;
                        tile.outputs[i] =
                            is_there ? std::min(task.weight.outputs - at * panel_outputs, panel_outputs) : 0;
                        tile.panels[i] = walk.at(at, k);
                        // The first tile fetches the next panels, the others find their own.
                        tile.fetch[i] = at + kept < outer_end ? walk.at(at + kept, k) : tile.panels[i];
                        if (walk.kernels.widen == nullptr) continue;
                        if (is_there) walk.kernels.widen(tile.panels[i], k % walk.kernels.pair != 0, count, wide[i]);
                        tile.panels[i] = reinterpret_cast<std::byte const*>(wide[is_there ? i : 0]);
                    }
                    for (std::int64_t row = 0; row < rows;) {
                        auto const end = tile_end(row, rows, kernels.max_rows);
                        tile.in = copied + row * copied_stride;
                        tile.out = task.out + (first_row + row) * task.out_stride + panel * panel_outputs;
                        kernels.rows[static_cast<std::size_t>(end - row - 1)](tile);
                        for (std::int64_t i = 0; i < tile_panels; ++i) tile.fetch[i] = tile.panels[i];
                        row = end;
                    }
                }
            }
        }
    }
}

/// The results of a product without inputs.
inline void clear_results(ProductTask const& task) {
    auto const begin = task.first_panel * panel_outputs;
    auto const end = std::min(task.last_panel * panel_outputs, task.weight.outputs);
    for (std::int64_t row = 0; row < task.rows; ++row) {
        std::fill(task.out + row * task.out_stride + begin, task.out + row * task.out_stride + end, 0.0F);
    }
}

/// A product of dense weights. Every element is the sum, in order, of the sums of tile_inputs products in order.
///
/// Memory  241 KiB of stack
inline void run_tiles(ProductTask const& task, TileKernels const& kernels) {
    if (task.inputs.size() == 0) return clear_results(task);
    TileWalk const walk{task, kernels};
    if (task.rows <= streamed_rows) {
        run_streamed(walk);
    } else {
        run_blocked(walk);
    }
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
