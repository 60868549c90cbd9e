// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// gpt-oss 20B and 120B: attention sinks, every other layer with a window, experts stacked in one tensor per layer.
///
/// Source  transformers 4.57 models/gpt_oss/modeling_gpt_oss.py
struct GptOss {
    static constexpr std::string_view name = "gpt_oss";
    static constexpr std::string_view gguf_name = "gpt-oss";
    static constexpr GgufForm gguf_form{.splits_gate_and_up = true};
    /// The values of the two numbers in the clamped activation.
    static constexpr std::array unread_keys{UnreadKey{"swiglu_alpha", "1.702"}, UnreadKey{"swiglu_limit", "7.0"}};

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 201088).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 2880).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 2880)
            .in_gguf("expert_feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 36).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 64).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 8).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 64).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 131072).in_gguf("context_length"),
        positive_field("num_local_experts", &ModelConfig::experts, 128).named("num_experts").in_gguf("expert_count"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 4).in_gguf("expert_used_count"),
        natural_field("sliding_window", &ModelConfig::sliding_window, 128).in_gguf("attention.sliding_window"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        flag_field("attention_bias", &ModelConfig::attention_bias, true),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 150000.0).in_gguf("rope.freq_base"),
    };

    /// Published files hold the experts in MXFP4 as blocks and scales; GGUF splits gate from up.
    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_frame, detail::gguf_qkv,
        std::array{
            NameAlias{"blk.{}.post_attention_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
            NameAlias{"blk.{}.attn_sinks.weight", "model.layers.{}.self_attn.sinks"},
            NameAlias{"blk.{}.ffn_gate_inp.weight", "model.layers.{}.mlp.router.weight"},
            NameAlias{"blk.{}.ffn_gate_inp.bias", "model.layers.{}.mlp.router.bias"},
            NameAlias{"blk.{}.ffn_gate_exps.weight", "model.layers.{}.mlp.experts.gate_up_proj"},
            NameAlias{"blk.{}.ffn_up_exps.weight", "model.layers.{}.mlp.experts.gate_up_proj"},
            NameAlias{"blk.{}.ffn_gate_exps.bias", "model.layers.{}.mlp.experts.gate_up_proj_bias"},
            NameAlias{"blk.{}.ffn_up_exps.bias", "model.layers.{}.mlp.experts.gate_up_proj_bias"},
            NameAlias{"blk.{}.ffn_down_exps.weight", "model.layers.{}.mlp.experts.down_proj"},
            NameAlias{"blk.{}.ffn_down_exps.bias", "model.layers.{}.mlp.experts.down_proj_bias"},
            NameAlias{"model.layers.{}.mlp.experts.gate_up_proj_blocks", "model.layers.{}.mlp.experts.gate_up_proj"},
            NameAlias{"model.layers.{}.mlp.experts.gate_up_proj_scales", "model.layers.{}.mlp.experts.gate_up_proj"},
            NameAlias{"model.layers.{}.mlp.experts.down_proj_blocks", "model.layers.{}.mlp.experts.down_proj"},
            NameAlias{"model.layers.{}.mlp.experts.down_proj_scales", "model.layers.{}.mlp.experts.down_proj"},
        });

    static constexpr std::array gguf_defaults{
        // llama.cpp itself rounds the ramp for all families (ggml.c: ggml_rope_yarn_corr_dims), which is not this model.
        GgufDefault(
            "rope_scaling.truncate", [](ModelConfig& config) { config.rope.truncates = false; },
            "config.json of openai/gpt-oss-20b and gpt-oss-120b; gpt_oss/torch/model.py of openai/gpt-oss"),
    };

    static constexpr detail::LlamaLayout layout{.prefix = "GptOss"};

    /// attention_bias covers all four projections; without layer_types, layers 0, 2, ... slide; the published model's
    /// rope scaling is the class's default where a config does not mention any.
    static constexpr Result<> complete(ModelConfig& config) {
        config.expert_intermediate_size = config.intermediate_size;
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (auto const checked = detail::check_experts(config); !checked) return checked;
        config.attention_out_bias = config.attention_bias;
        config.activation = ActivationKind::swiglu_clamped;
        config.dense_layers = {};
        // Model card of gpt-oss (arXiv 2508.10925), table 1: 5.13 B and 3.61 B, the embedding left out.
        config.active_embedding = false;
        config.router_score = RouterScore::softmax_chosen;
        config.norm_expert_weights = false;
        if (!config.rope.is_given && config.rope.kind == RopeKind::standard) {
            config.rope.kind = RopeKind::yarn;
            config.rope.factor = 32.0;
            config.rope.original_max_positions = 4096;
            config.rope.truncates = false;
        }
        return detail::complete_windows(config, [](std::int64_t layer) { return layer % 2 == 0; });
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        auto const dtype = config.dtype_or(Dtype::f32);
        detail::PartMaker part(tree, dtype);
        Tensor sinks{
            .name = "sinks", .shape = {config.heads}, .dtype = dtype, .shard = ShardRule::units(0, config.heads)};
        auto const projections = detail::add_projections(part, config, config.attention_bias, config.attention_bias);
        auto const attention = tree.add("GptOssAttention", Span<Tensor const>{&sinks, 1}, projections);
        auto const mlp =
            tree.add("GptOssMLP", {}, {{"router", add_router(tree, config)}, {"experts", add_experts(tree, config)}});
        auto const layer = detail::add_decoder_layer(tree, config, layout, attention, mlp);
        detail::finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)},
                               config.head_dim);
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::decoder_program(config, layout, tree, [&](BlockBuilder& body, ValueId in) {
            auto const routes = body.route(body.linear(in, "router", "mlp.router"), config);
            auto const gate_up = body.stacked_experts(in, routes, "gate_up", "mlp.experts.gate_up_proj",
                                                      "mlp.experts.gate_up_proj_bias", {.alternates = true});
            auto const activated = body.gated_halves(gate_up, config.activation);
            auto const down = body.stacked_experts(activated, routes, "experts_out", "mlp.experts.down_proj",
                                                   "mlp.experts.down_proj_bias");
            return body.combine(down, routes);
        });
    }

private:
    static constexpr ModuleId add_router(ModuleTree& tree, ModelConfig const& config) {
        detail::TensorMaker const make{config.dtype_or(Dtype::f32)};
        return tree.add("GptOssTopKRouter", {make.weight(config.experts, config.hidden_size, {}, TensorUse::router),
                                             make.bias(config.experts)});
    }

    /// Weights are [experts, in, out]; gate and up columns alternate, so that a unit is a pair of them.
    static constexpr ModuleId add_experts(ModuleTree& tree, ModelConfig const& config) {
        auto const dtype = config.dtype_or(Dtype::f32);
        auto const experts = config.experts;
        auto const width = config.expert_intermediate_size;
        auto const hidden = config.hidden_size;
        auto const tensor = [&](std::string_view tensor_name, Shape const& shape, TensorUse use,
                                ShardRule const& shard) {
            return Tensor{.name = tensor_name,
                          .shape = shape,
                          .dtype = dtype,
                          .use = use,
                          .is_transposed = shape.rank() == 3,
                          .shard = shard.stacked(experts)};
        };
        return tree.add(
            "GptOssExperts",
            {tensor("gate_up_proj", {experts, hidden, 2 * width}, TensorUse::ffn_up, ShardRule::units(2, width)),
             tensor("gate_up_proj_bias", {experts, 2 * width}, TensorUse::bias, ShardRule::units(1, width)),
             tensor("down_proj", {experts, width, hidden}, TensorUse::ffn_down, ShardRule::units(1, width)),
             tensor("down_proj_bias", {experts, hidden}, TensorUse::bias, {})});
    }
};

static_assert(ModelArchitecture<GptOss>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
