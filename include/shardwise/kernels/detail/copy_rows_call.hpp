// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A copy of rows as its kernel takes it: row i is the row numbers[i] - first of `in`, and zeros where that is none; without numbers
/// (null) it is the row i.
template <class T>
struct CopyRowsCall {
    std::int32_t const* numbers;
    std::int64_t first;
    T const* in;
    std::int64_t in_row;
    std::int64_t in_rows;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
