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
    sparse_mixer,    // the best one and then the best of the rest, each by a softmax over those that come near it (phimoe)
};

/// How a group of experts is ranked, where only some groups may be chosen from.
enum class GroupRank : std::uint8_t {
    best,      // by its best expert (deepseek_v2)
    best_two,  // by the sum of its two best (deepseek_v3)
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
