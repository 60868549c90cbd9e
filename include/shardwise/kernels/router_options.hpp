// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/router_score.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How each token's experts are chosen and weighted.
struct RouterOptions {
    std::int64_t experts_per_token = 1;
    RouterScore score = RouterScore::softmax;
    /// The chosen weights are divided by their sum and 1e-20, which only sigmoids of very negative logits come near.
    bool renormalises = false;
    /// Multiplies the weights at last.
    float scale = 1.0F;
    /// Experts are in this many groups of equal size, and only those of the best `kept_groups` are chosen from; 0: no groups.
    std::int64_t groups = 0;
    std::int64_t kept_groups = 0;
    GroupRank group_rank = GroupRank::best;
    /// Of sparse_mixer: logits come near the best one where they fall short of it by no more than this share of themselves.
    float near_share = 0.0F;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
