// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>

/// The MLP whose gate and up are one projection, one after the other (phi3, glm4).
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

[[nodiscard]] constexpr ModuleId add_fused_mlp(ModuleTree& tree, ModelConfig const& config, LlamaLayout const& layout) {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    auto const width = config.intermediate_size;
    auto const gate_up =
        part.linear(2 * width, config.hidden_size, false, ShardRule::packed(0, 2, width), TensorUse::ffn_up);
    auto const down = part.linear(config.hidden_size, width, false, ShardRule::units(1, width), TensorUse::ffn_down);
    return tree.add(part.name(layout.prefix, "MLP"), {},
                    {{"gate_up_proj", gate_up},
                     {"down_proj", down},
                     {"activation_fn", part.plain(activation_class(config.activation))}});
}

[[nodiscard]] constexpr ValueId append_fused_mlp(BlockBuilder& body, ModelConfig const& config, ValueId normed) {
    auto const gate_up = body.linear(normed, "gate_up", "mlp.gate_up_proj");
    return body.linear(body.gated_halves(gate_up, config.activation), "mlp_out", "mlp.down_proj");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
