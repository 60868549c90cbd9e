// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/step_capacity.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/files/rope_divisors.hpp>
#include <shardwise/op/rope_frequencies.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// By how much the pairs of a layer's heads turn for each position, and what multiplies them.
struct LayerRope {
    std::vector<float> frequencies;
    float scale = 1.0F;
};

/// The rotation of the heads of one shape: sliding layers may turn by another base (gemma3). `sequence` is the longest that is computed.
///
/// Errors  as rope_frequencies; as RopeDivisors::divide
[[nodiscard]] inline Result<LayerRope> layer_rope(ModelConfig const& config, AttentionShape const& shape,
                                                  std::int64_t sequence, RopeDivisors const& divisors) {
    auto rope = config.rope;
    if (shape.window > 0 && rope.local_theta > 0.0) {
        rope.kind = RopeKind::standard;
        rope.theta = rope.local_theta;
    }
    auto const made = rope_frequencies(rope, {.rotary = rotary_elements(rope, rotated_width(shape)),
                                              .max_positions = config.max_positions,
                                              .sequence = sequence,
                                              .short_factors = divisors.short_context,
                                              .long_factors = divisors.long_context});
    if (!made) return made.error();
    LayerRope out{{made->per_pair.begin(), made->per_pair.end()}, made->attention_factor};
    if (auto const done = divisors.divide(out.frequencies); !done) return done.error();
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
