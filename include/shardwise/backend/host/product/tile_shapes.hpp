// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The operand of AMX's `ldtilecfg`: rows of each tile and bytes of its rows (Intel SDM, volume 1, 18.3).
struct TileShapes {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t unused[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
