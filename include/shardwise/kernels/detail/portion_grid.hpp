// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How blocks share rows that are cut into portions: 2^lane_shift threads of a block work on a row, and `column_blocks` blocks.
struct PortionGrid {
    int lane_shift;
    std::uint32_t column_blocks;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
