// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/core/version.hpp>
#include <shardwise/kernels/detail/step_layout.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a kernel reads of a step table to find the rows of a cache that a step's tokens have.
struct StepPlaces {
    /// Tokens of the step first.
    std::int32_t const* counts;
    std::int32_t const* sequence;
    std::int32_t const* first;
    std::int32_t const* past;
    /// Of the first sequence.
    std::int32_t const* pages;
    /// From one sequence's list to the next one's.
    std::int64_t list;
    int page_shift;
};

/// Of the lists of a group.
[[nodiscard]] inline StepPlaces make_step_places(StepLayout const& layout, std::int32_t const* table,
                                                 std::int64_t group) {
    return {table + StepLayout::counts,
            table + layout.sequence,
            table + layout.first,
            table + layout.past,
            table + layout.lists + group * layout.pages,
            layout.groups * layout.pages,
            layout.page_shift};
}

/// The row of the cache that a token's keys and values lie in; -1 of none.
[[nodiscard]] SHARDWISE_DEVICE inline std::int64_t place_of(StepPlaces const& places, std::int64_t token) {
    if (token >= places.counts[0]) return -1;
    auto const sequence = places.sequence[token];
    auto const row = places.past[sequence] + static_cast<std::int32_t>(token) - places.first[sequence];
    std::int64_t const page = places.pages[sequence * places.list + (row >> places.page_shift)];
    return (page << places.page_shift) + (row & ((1 << places.page_shift) - 1));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
