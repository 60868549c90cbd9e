// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/arch/detail/sparse_mlp.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The text model of Qwen3-VL with experts: qwen3_moe whose experts are stacked. Positions are those of Qwen3-VL's.
///
/// Source  transformers 4.57 models/qwen3_vl_moe/modeling_qwen3_vl_moe.py (Qwen3VLMoeTextModel)
struct Qwen3VlMoeText {
    static constexpr std::string_view name = "qwen3_vl_moe_text";
    static constexpr std::string_view gguf_name = "qwen3vlmoe";
    /// Of each expert all rows of the gate come before those of up.
    static constexpr GgufForm gguf_form{.last_rows = ".ffn_up_exps."};

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 151936,
         .hidden_size = 2048,
         .intermediate_size = 5632,
         .layers = 24,
         .heads = 16,
         .kv_heads = 16,
         .max_positions = 128000,
         .rope_theta = 5000000.0},
        natural_field("num_experts", &ModelConfig::experts, 60).named("num_local_experts").in_gguf("expert_count"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 4).in_gguf("expert_used_count"),
        positive_field("moe_intermediate_size", &ModelConfig::expert_intermediate_size, 1408)
            .in_gguf("expert_feed_forward_length"),
        positive_field("decoder_sparse_step", &ModelConfig::decoder_sparse_step, 1),
        flag_field("attention_bias", &ModelConfig::attention_bias, false));

    /// llama.cpp's converter parts gate and up.
    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_llama, detail::gguf_qk_norms,
                             std::array{
                                 NameAlias{"blk.{}.ffn_gate_inp.weight", "model.layers.{}.mlp.gate.weight"},
                                 NameAlias{"blk.{}.ffn_gate_exps.weight", "model.layers.{}.mlp.experts.gate_up_proj"},
                                 NameAlias{"blk.{}.ffn_up_exps.weight", "model.layers.{}.mlp.experts.gate_up_proj"},
                                 NameAlias{"blk.{}.ffn_down_exps.weight", "model.layers.{}.mlp.experts.down_proj"},
                             });

    static constexpr detail::LlamaLayout layout{.prefix = "Qwen3VLMoeText"};

    /// attention_bias covers all four projections; the chosen weights are always divided by their sum.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked =
                detail::check_class(config, {"Qwen3VLMoeForConditionalGeneration", "Qwen3VLMoeTextModel"});
            !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.qk_norm = config.norm_expert_weights = true;
        detail::leave_out_windows(config);
        return detail::complete_sparse_layers(config);
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        auto const attention = detail::add_attention(tree, config, layout);
        ModuleId sparse = 0;
        ModuleId dense = 0;
        std::int64_t dense_layers = 0;
        for (std::int64_t layer = 0; layer < config.layers; ++layer)
            dense_layers += config.dense_layers.contains(layer) ? 1 : 0;
        if (dense_layers < config.layers)
            sparse = detail::add_decoder_layer(tree, config, layout, attention, add_moe(tree, config));
        if (dense_layers > 0) {
            auto const mlp = detail::add_gated_mlp(tree, config, layout, config.intermediate_size);
            dense = detail::add_decoder_layer(tree, config, layout, attention, mlp);
        }
        detail::finish_decoder(tree, config, layout, detail::mixed_layers(config, sparse, dense), config.head_dim);
        return tree;
    }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::decoder_program(config, layout, tree, [&](BlockBuilder& body, ValueId in) {
            if (!body.has("mlp.experts")) return detail::append_gated_mlp(body, config, in);
            auto const routes = body.route(body.linear(in, "router", "mlp.gate"), config);
            auto const both = body.stacked_experts(in, routes, "gate_up", "mlp.experts.gate_up_proj", {});
            auto const activated = body.gated_halves(both, config.activation);
            return body.combine(body.stacked_experts(activated, routes, "experts_out", "mlp.experts.down_proj", {}),
                                routes);
        });
    }

private:
    /// Weights are [experts, in, out]; all gates come before all ups.
    static constexpr ModuleId add_moe(ModuleTree& tree, ModelConfig const& config) {
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const width = config.expert_intermediate_size;
        Tensor both{.name = "gate_up_proj",
                    .shape = {config.experts, config.hidden_size, 2 * width},
                    .dtype = config.dtype_or(Dtype::f32),
                    .use = TensorUse::ffn_up,
                    .is_transposed = true,
                    .shard = ShardRule::packed(2, 2, width).stacked(config.experts)};
        auto down = both;
        down.name = "down_proj";
        down.use = TensorUse::ffn_down;
        down.shape = {config.experts, width, config.hidden_size};
        down.shard = ShardRule::units(1, width).stacked(config.experts);
        auto const experts = tree.add("Qwen3VLMoeTextExperts", {both, down},
                                      {{"act_fn", part.plain(activation_class(config.activation))}});
        return tree.add("Qwen3VLMoeTextSparseMoeBlock", {},
                        {{"gate", detail::add_router(tree, config)}, {"experts", experts}});
    }
};

static_assert(ModelArchitecture<Qwen3VlMoeText>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
