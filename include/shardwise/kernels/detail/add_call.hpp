// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// An addition as its kernel takes it: out = a + b. Where there is no b (null) it is factor * a, where there is no a either factor.
template <class T, class Other = T>
struct AddCall {
    T const* a;
    std::int64_t a_row;
    Other const* b;
    /// 0: one row is added to all.
    std::int64_t b_row;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
    float factor;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
