// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/core/checked.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Multiply-adds below which a part of a product is not worth another thread: some microseconds of work.
inline constexpr std::int64_t min_part_work = 1 << 17;
/// Parts for each thread at most: a thread that was kept from running leaves parts to the others.
inline constexpr std::int64_t parts_per_thread = 8;

/// How a product is cut into parts for threads. What an element is summed of does not depend on it.
struct ProductCut {
    std::int64_t panel_parts = 1;
    std::int64_t row_parts = 1;
};

[[nodiscard]] constexpr ProductCut cut_product(std::int64_t rows, std::int64_t panels, std::int64_t inputs,
                                               std::int64_t threads) {
    if (threads <= 1 || rows == 0 || panels == 0) return {};
    auto const work =
        static_cast<double>(rows) * static_cast<double>(panels * panel_outputs) * static_cast<double>(inputs);
    auto const most = static_cast<std::int64_t>(
        std::min(work / static_cast<double>(min_part_work), static_cast<double>(threads * parts_per_thread)));
    ProductCut cut;
    // Pairs of panels are multiplied together.
    cut.panel_parts = std::clamp<std::int64_t>(most, 1, ceil_divide(panels, 2));
    if (cut.panel_parts < threads && most > cut.panel_parts) {
        // Fewer panels than threads: rows are cut too, tiles of 16 at least.
        cut.row_parts = std::clamp<std::int64_t>(most / cut.panel_parts, 1, ceil_divide(rows, 16));
    }
    return cut;
}

/// Pairs of panels that a thread takes at a time of a weight that streams past it: the last ones keep nobody waiting.
[[nodiscard]] constexpr std::int64_t streamed_pairs(std::int64_t rows, std::int64_t inputs) {
    auto const work = std::max<std::int64_t>(rows * inputs, 1) * 2 * panel_outputs;
    return std::max<std::int64_t>(min_part_work / 2 / work, 1);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
