// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/config.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/op/rope_frequencies.hpp>

#include <cmath>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What multiplies an attention's scores in the layer of this number; 0: 1 / sqrt(key_dim).
[[nodiscard]] inline float score_scale(ModelConfig const& config, AttentionShape const& shape, std::int64_t layer) {
    if (shape.has_yarn_scores && config.rope.mscale_all_dim != 0.0) {
        auto const growth = yarn_magnitude(config.rope.factor, config.rope.mscale_all_dim);
        return static_cast<float>(growth * growth / std::sqrt(static_cast<double>(shape.key_dim)));
    }
    if (shape.divides_by_layer) {
        auto const plain = 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
        auto const scale = shape.score_scale > 0.0 ? shape.score_scale : plain;
        return static_cast<float>(scale / static_cast<double>(layer + 1));
    }
    return static_cast<float>(shape.score_scale);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
