// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A making of cosines and sines as its kernel takes it.
struct RopeTurnsCall {
    std::int32_t const* positions;
    float const* frequencies;
    float* turns;
    std::int64_t turns_row;
    std::int64_t tokens;
    std::int64_t pairs;
    float scale;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
