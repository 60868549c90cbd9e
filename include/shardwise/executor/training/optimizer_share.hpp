// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// ZeRO shares begin at multiples of this many elements: the blocks of the 8-bit states.
inline constexpr std::int64_t optimizer_share_multiple = 256;

/// The elements of a parameter that `rank` owns of `ranks`: whole blocks of 256, as evenly as possible, the larger shares first.
[[nodiscard]] constexpr UnitRange optimizer_share(std::int64_t elements, std::int64_t ranks, std::int64_t rank) {
    auto const blocks = split_units(ceil_divide(elements, optimizer_share_multiple), ranks, rank);
    auto const cut = [elements](std::int64_t block) {
        auto const begin = block * optimizer_share_multiple;
        return begin < elements ? begin : elements;
    };
    return {cut(blocks.begin), cut(blocks.end)};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
