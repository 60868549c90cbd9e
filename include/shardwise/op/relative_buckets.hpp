// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The distance from which on all keys of one side share a bucket.
inline constexpr std::int64_t relative_reach = 128;

/// The bucket of a key that stands `distance` tokens before its query, where no query sees a later one: near keys have one each, of
/// those further away more and more share one, and from `reach` on all.
///
/// Source  as relative_bucket; there without `bidirectional`
[[nodiscard]] inline std::int64_t past_bucket(std::int64_t distance, std::int64_t buckets, std::int64_t reach) {
    auto const exact = buckets / 2;
    if (distance < exact) return distance;
    // <cmath> would be a twelfth of what <shardwise/shardwise.hpp> takes to compile.
    auto const growth = __builtin_logf(static_cast<float>(distance) / static_cast<float>(exact)) /
                        __builtin_logf(static_cast<float>(reach) / static_cast<float>(exact));
    auto const bucket = exact + static_cast<std::int64_t>(growth * static_cast<float>(buckets - exact));
    return bucket < buckets ? bucket : buckets - 1;
}

/// The bucket of a key that stands `offset` tokens after its query (before it: negative) among `buckets` for both sides: near keys
/// have one each, of those further away more and more share one, and from `reach` on all.
///
/// Source  Raffel et al., T5, 2020, section 2.1; transformers 4.57 models/mpnet/modeling_mpnet.py, relative_position_bucket, in its
///         roundings
[[nodiscard]] inline std::int64_t relative_bucket(std::int64_t offset, std::int64_t buckets,
                                                  std::int64_t reach = relative_reach) {
    auto const half = buckets / 2;
    if (offset > 0) return half + past_bucket(offset, half, reach);
    return past_bucket(-offset, half, reach);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
