// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A rope as its kernel takes it.
template <class T>
struct RopeCall {
    T* values;
    std::int64_t row;
    std::int32_t const* positions;
    float const* frequencies;
    std::int64_t tokens;
    std::int64_t pairs;
    std::int64_t heads;
    std::int64_t head_dim;
    float scale;
    bool is_interleaved;
};

/// Defined in kernels/rope.cuh.
template <class Api, class T>
Result<> launch_rope(RopeCall<T> const& call, typename Api::Stream stream);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
