// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a token is chosen from its logits.
struct SamplingOptions {
    /// Divides the logits; 0: the greatest logit wins, and only the repetition penalty applies.
    float temperature = 0.0F;
    /// Only logits not below the k-th greatest are drawn from; 0: all.
    std::int64_t top_k = 0;
    /// Only the most probable tokens whose predecessors have less than this probability together; 1: all.
    float top_p = 1.0F;
    /// Only tokens at least this part as probable as the most probable one; 0: all.
    float min_p = 0.0F;
    /// Logits of tokens in the history are divided by it where positive and multiplied where negative; 1: left alone.
    float repetition_penalty = 1.0F;
    std::uint64_t seed = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
