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

/// What tells the rotations of a model's layers apart: layers of one kind rotate by the same frequencies.
struct RotationKind {
    /// Elements of a head among which some rotate.
    std::int64_t width = 0;
    /// Sliding layers may rotate by another base (gemma3).
    bool has_local_base = false;

    friend bool operator==(RotationKind const&, RotationKind const&) = default;
};

[[nodiscard]] inline RotationKind rotation_kind(ModelConfig const& config, AttentionShape const& shape) {
    return {rotated_width(shape), shape.window > 0 && config.rope.local_theta > 0.0};
}

/// The rotation of the heads of one shape. `sequence` is the longest that is computed.
///
/// Errors  unsupported for an odd number of elements; as rope_frequencies; as RopeDivisors::divide
[[nodiscard]] inline Result<LayerRope> layer_rope(ModelConfig const& config, AttentionShape const& shape,
                                                  std::int64_t sequence, RopeDivisors const& divisors) {
    auto rope = config.rope;
    auto const kind = rotation_kind(config, shape);
    if (kind.has_local_base) {
        rope.kind = RopeKind::standard;
        rope.theta = rope.local_theta;
    }
    auto const rotary = rotary_elements(rope, kind.width);
    // What transformers 4.57 makes of it depends on the family: an error, wider heads, or another element that rotates too.
    if (rotary % 2 != 0)
        return Error{ErrorCode::unsupported}
            .in("rope")
            .at("partial_rotary_factor")
            .because("rotates an odd number of a head's elements, of which there are no pairs")
            .got(rotary)
            .multiple_of(2);
    auto const made = rope_frequencies(rope, {.rotary = rotary,
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
