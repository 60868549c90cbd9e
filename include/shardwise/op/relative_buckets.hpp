// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The distance from which on all keys of one side share a bucket.
inline constexpr std::int64_t relative_reach = 128;

/// The bucket of a key that stands `offset` tokens after its query (before it: negative) among `buckets` for both sides: near keys
/// have one each, of those further away more and more share one, and from `reach` on all.
///
/// Source  Raffel et al., T5, 2020, section 2.1; transformers 4.57 models/mpnet/modeling_mpnet.py, relative_position_bucket, in its
///         roundings
[[nodiscard]] inline std::int64_t relative_bucket(std::int64_t offset, std::int64_t buckets,
                                                  std::int64_t reach = relative_reach) {
    auto const half = buckets / 2;
    auto const exact = half / 2;
    auto const side = offset > 0 ? half : 0;
    auto const distance = offset > 0 ? offset : -offset;
    if (distance < exact) return side + distance;
    // <cmath> would be a twelfth of what <shardwise/shardwise.hpp> takes to compile.
    auto const growth = __builtin_logf(static_cast<float>(distance) / static_cast<float>(exact)) /
                        __builtin_logf(static_cast<float>(reach) / static_cast<float>(exact));
    auto const bucket = exact + static_cast<std::int64_t>(growth * static_cast<float>(half - exact));
    return side + (bucket < half ? bucket : half - 1);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
