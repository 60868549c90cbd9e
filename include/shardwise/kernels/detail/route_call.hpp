// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/router_score.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// More experts than any model has, whose scores a block of threads keeps at hand.
inline constexpr int max_routed_experts = 1024;

/// A choice of experts as its kernel takes it.
struct RouteCall {
    float const* logits;
    std::int64_t logits_row;
    /// Or null.
    float const* correction;
    std::int32_t* ids;
    std::int64_t ids_row;
    float* weights;
    std::int64_t weights_row;
    std::int64_t tokens;
    std::int32_t experts;
    std::int32_t chosen;
    /// 0: no groups.
    std::int32_t groups;
    std::int32_t kept_groups;
    float scale;
    float near_share;
    RouterScore score;
    GroupRank group_rank;
    bool renormalises;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
