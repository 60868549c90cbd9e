// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/rms_norm_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Parts that one pass adds.
inline constexpr std::int64_t max_residual_parts = 64;

/// A sum and its RMS norm as their kernel takes them, with weights of the rows' type or floats.
template <class T, class Weight = T>
struct ResidualNormCall {
    /// Reads the residual.
    RmsNormCall<T, Weight> norm;
    T* residual;
    std::int64_t count;
    /// Rows without gaps.
    T const* parts[max_residual_parts];
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
