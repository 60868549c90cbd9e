// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>
#include <shardwise/quant/weight_format_kind.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows of floats that become a weight as devices hold it.
struct QuantizeCall {
    WeightFormat format;
    float const* in;
    std::int64_t in_row;
    std::int64_t rows;
    std::int64_t width;
    /// Elements that share a scale; where none do, as many as a team takes at once.
    std::int64_t span;
    std::int64_t spans;
    /// Rows of quants, their padding to 16 bytes included, and what DeviceWeightView says of the rest.
    std::byte* quants;
    std::int64_t row_bytes;
    std::byte* planes;
    std::int64_t block_row;
    std::byte* scales;
    std::int64_t scale_row;
    /// True where rows are made of packs.
    bool is_packed;
    /// 2^team_shift teams of a block work on a row, and `column_blocks` blocks.
    int team_shift;
    std::uint32_t column_blocks;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
