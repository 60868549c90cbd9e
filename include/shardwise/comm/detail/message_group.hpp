// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The ranks of a group, by their numbers on the wire, and what keeps its messages apart from other groups'.
struct MessageGroup {
    std::vector<std::int32_t> members;
    std::int32_t rank = 0;
    std::uint32_t channel = 0;
};

/// The group of all ranks of a wire.
[[nodiscard]] inline MessageGroup whole_group(std::int32_t rank, std::int32_t ranks) {
    MessageGroup group;
    group.members.resize(static_cast<std::size_t>(ranks));
    std::iota(group.members.begin(), group.members.end(), 0);
    group.rank = rank;
    return group;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
