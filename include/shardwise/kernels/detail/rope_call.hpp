// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A rope as its kernel takes it.
template <class T>
struct RopeCall {
    T* values;
    std::int64_t row;
    std::int32_t const* positions;
    float const* frequencies;
    /// Of each token the cosines of all pairs, then the sines; null where they come of positions and frequencies.
    float const* turns;
    std::int64_t turns_row;
    std::int64_t tokens;
    std::int64_t pairs;
    std::int64_t heads;
    std::int64_t head_dim;
    /// Elements of a head before those that turn.
    std::int64_t first;
    float scale;
    bool is_interleaved;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
