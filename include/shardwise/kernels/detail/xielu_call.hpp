// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// An xIELU as its kernel takes it.
template <class T>
struct XieluCall {
    T const* in;
    std::int64_t in_row;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
    /// alpha_p, alpha_n, beta and eps.
    float const* numbers;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
