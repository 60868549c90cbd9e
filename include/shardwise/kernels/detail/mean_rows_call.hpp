// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows that are added up before their sum is added to those before it: what a sum of n rows loses is that of 64 + n / 64 additions.
inline constexpr std::int64_t mean_rows_together = 64;

/// Means of rows as their kernel takes them: row i is that of the rows of `in` after last_rows[i - 1] up to last_rows[i], and zeros
/// where that is none.
template <class T>
struct MeanRowsCall {
    std::int32_t const* last_rows;
    T const* in;
    std::int64_t in_row;
    std::int64_t in_rows;
    T* out;
    std::int64_t out_row;
    std::int64_t rows;
    std::int64_t width;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
