// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a router's logits become before experts are chosen.
enum class RouterScore : std::uint8_t {
    softmax,         // over all experts, then the best are chosen (mixtral, qwen, deepseek_v2)
    sigmoid,         // each by itself (deepseek_v3)
    softmax_chosen,  // the best logits are chosen, then softmax over these (gpt_oss)
    sparse_mixer,  // the best one and then the best of the rest, each by a softmax over those that come near it (phimoe)
};

/// How a group of experts is ranked, where only some groups may be chosen from.
enum class GroupRank : std::uint8_t {
    best,      // by its best expert (deepseek_v2)
    best_two,  // by the sum of its two best (deepseek_v3)
};

/// How a router's scores become the weights of the experts that it chooses.
struct RouterRule {
    RouterScore score = RouterScore::softmax;
    /// The chosen weights are divided by their sum.
    bool renormalises = false;
    /// Multiplies the weights at last.
    double scale = 1.0;
    /// Experts are in so many groups, and only those of the best `kept_groups` are chosen from; 0: no groups.
    std::int64_t groups = 0;
    std::int64_t kept_groups = 0;
    GroupRank group_rank = GroupRank::best;
    /// Of the sparse mixer: by what share of itself a logit may fall short of the best.
    double near_share = 0.0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
