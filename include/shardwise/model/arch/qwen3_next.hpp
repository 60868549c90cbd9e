// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/arch/detail/sparse_mlp.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Qwen3-Next: three layers of four have a gated delta rule, whose state does not grow, the fourth an attention with a gate;
/// experts as qwen2_moe's. The layers that predict further tokens are left out, as transformers leaves them out.
///
/// Source  transformers 4.57 models/qwen3_next/modeling_qwen3_next.py
struct Qwen3Next {
    static constexpr std::string_view name = "qwen3_next";
    static constexpr std::string_view gguf_name = "qwen3next";
    /// Of the delta rule's first product the gates of all heads come last.
    static constexpr GgufForm gguf_form{.last_rows = ".attn_gate."};

    static constexpr auto fields = detail::decoder_fields(
        {.vocab_size = 151936,
         .hidden_size = 2048,
         .intermediate_size = 5632,
         .layers = 48,
         .heads = 16,
         .kv_heads = 2,
         .head_dim = 256,
         .max_positions = 32768,
         .has_nullable_kv_heads = false,
         .has_nullable_head_dim = false},
        positive_field("linear_conv_kernel_dim", 4).in_gguf("ssm.conv_kernel"),
        positive_field("linear_key_head_dim", 128).in_gguf("ssm.state_size"),
        positive_field("linear_value_head_dim", 128),
        positive_field("linear_num_key_heads", 16).in_gguf("ssm.group_count"),
        positive_field("linear_num_value_heads", 32).in_gguf("ssm.time_step_rank"),
        positive_field("full_attention_interval", 4).in_gguf("full_attention_interval"),
        natural_field("num_experts", &ModelConfig::experts, 512).named("num_local_experts").in_gguf("expert_count"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 10).in_gguf("expert_used_count"),
        positive_field("moe_intermediate_size", &ModelConfig::expert_intermediate_size, 512)
            .in_gguf("expert_feed_forward_length"),
        positive_field("shared_expert_intermediate_size", &ModelConfig::shared_expert_intermediate_size, 512)
            .in_gguf("expert_shared_feed_forward_length"),
        positive_field("decoder_sparse_step", &ModelConfig::decoder_sparse_step, 1),
        flag_field("norm_topk_prob", &ModelConfig::norm_expert_weights, true),
        flag_field("attention_bias", &ModelConfig::attention_bias, false), detail::partial_rotary_field(0.25),
        detail::rotary_dim_field);

    static constexpr std::string_view local_kind = "linear_attention";

    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_frame, detail::gguf_qkv, detail::gguf_qk_norms, detail::gguf_gated_mlp, detail::gguf_experts,
        std::array{
            NameAlias{"blk.{}.post_attention_norm.weight", "model.layers.{}.post_attention_layernorm.weight"},
            NameAlias{"blk.{}.ffn_gate_inp_shexp.weight", "model.layers.{}.mlp.shared_expert_gate.weight"},
            NameAlias{"blk.{}.ffn_gate_shexp.weight", "model.layers.{}.mlp.shared_expert.gate_proj.weight"},
            NameAlias{"blk.{}.ffn_up_shexp.weight", "model.layers.{}.mlp.shared_expert.up_proj.weight"},
            NameAlias{"blk.{}.ffn_down_shexp.weight", "model.layers.{}.mlp.shared_expert.down_proj.weight"},
            NameAlias{"blk.{}.attn_qkv.weight", "model.layers.{}.linear_attn.in_proj_qkvz.weight"},
            NameAlias{"blk.{}.attn_gate.weight", "model.layers.{}.linear_attn.in_proj_qkvz.weight"},
            NameAlias{"blk.{}.ssm_ba.weight", "model.layers.{}.linear_attn.in_proj_ba.weight"},
            NameAlias{"blk.{}.ssm_conv1d.weight", "model.layers.{}.linear_attn.conv1d.weight"},
            NameAlias{"blk.{}.ssm_dt.bias", "model.layers.{}.linear_attn.dt_bias"},
            NameAlias{"blk.{}.ssm_a", "model.layers.{}.linear_attn.A_log"},
            NameAlias{"blk.{}.ssm_norm.weight", "model.layers.{}.linear_attn.norm.weight"},
            NameAlias{"blk.{}.ssm_out.weight", "model.layers.{}.linear_attn.out_proj.weight"},
        });

    static constexpr std::array gguf_defaults{
        GgufDefault(
            "linear_value_head_dim",
            [](ModelConfig& config) { config.own.set("linear_value_head_dim", config.own["linear_key_head_dim"]); },
            "llama.cpp 0c1e570, src/models/qwen3next.cpp: head_v_dim is ssm_d_state"),
        GgufDefault(
            "norm_topk_prob", [](ModelConfig& config) { config.norm_expert_weights = true; },
            "llama.cpp 0c1e570, src/models/qwen3next.cpp: build_moe_ffn with norm_w"),
    };

    static constexpr detail::LlamaLayout layout{
        .prefix = "Qwen3Next", .norm = NormKind::rms_offset, .has_rotary_dim = true};

    /// GGUF does not state which layers have states.
    static void infer_from_gguf(GgufTensorNames const& names, ModelConfig& config) {
        for (std::int64_t layer = 0; layer < config.layers && layer < LayerSet::capacity; ++layer)
            if (names.has_in_layer(layer, "ssm_conv1d.weight")) config.local_layers.insert(layer);
        config.layer_types_count = config.layers;
    }

    /// attention_bias covers all four projections of an attention.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (auto const checked = complete_states(config); !checked) return checked;
        if (auto const derived = detail::derive_rotary_dim(config, "partial_rotary_factor"); !derived) return derived;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.qk_norm = true;
        config.sliding_window = 0;
        return detail::complete_sparse_layers(config);
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        std::array<ModuleId, 4> kinds{};
        std::array<bool, 4> made{};
        List<Child> layers;
        for (std::int64_t layer = 0; layer < config.layers; ++layer) {
            bool const is_dense = config.dense_layers.contains(layer);
            bool const has_state = config.local_layers.contains(layer);
            auto const kind = (is_dense ? 1U : 0U) + (has_state ? 2U : 0U);
            if (!made[kind]) {
                auto const mixer = has_state ? add_delta(tree, config) : add_gated_attention(tree, config);
                auto const mlp = is_dense ? detail::add_gated_mlp(tree, config, layout, config.intermediate_size)
                                          : detail::add_sparse_mlp(tree, config, layout);
                kinds[kind] = add_layer(tree, config, has_state ? "linear_attn" : "self_attn", mixer, mlp);
                made[kind] = true;
            }
            if (!layers.empty() && layers.back().module == kinds[kind])
                ++layers.back().count;
            else
                layers.push_back(numbered(layer, 1, kinds[kind], ModuleRole::layer));
        }
        detail::finish_decoder(tree, config, layout, layers, config.rotary_dim);
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        auto const attend = [&](BlockBuilder& body, ValueId in, detail::LayerKind const&) {
            return body.has("linear_attn") ? append_delta(body, config, in) : append_gated_attention(body, config, in);
        };
        return detail::decoder_program(config, layout, tree, attend, [&](BlockBuilder& body, ValueId in) {
            return detail::append_mixed_mlp(body, config, in);
        });
    }

private:
    static constexpr DeltaShape delta_shape(ModelConfig const& config) {
        auto const& own = config.own;
        return {own["linear_num_key_heads"], own["linear_num_value_heads"], own["linear_key_head_dim"],
                own["linear_value_head_dim"], own["linear_conv_kernel_dim"]};
    }
    /// Which layers have states, and whether their heads go together.
    static constexpr Result<> complete_states(ModelConfig& config) {
        for (std::string_view const key : {"linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
                                           "linear_value_head_dim", "linear_conv_kernel_dim"}) {
            auto const size = config.own[key];
            if (size >= 1 && size <= (1 << 16)) continue;
            return Error{ErrorCode::invalid_field}
                .at(key)
                .because("is no size that a gated delta rule has here")
                .got(size)
                .between(1, 1 << 16);
        }
        auto const shape = delta_shape(config);
        if (shape.value_heads % shape.key_heads != 0) {
            return Error{ErrorCode::invalid_field}
                .at("linear_num_value_heads")
                .because("is not a multiple of linear_num_key_heads")
                .got(shape.value_heads)
                .multiple_of(shape.key_heads);
        }
        auto wide = config;
        for (auto const width :
             {shape.key_heads * (2 * shape.key_dim), shape.kernel, shape.value_heads * 2 * shape.value_dim})
            wide.intermediate_size = width > wide.intermediate_size ? width : wide.intermediate_size;
        if (auto const checked = detail::check_products(wide); !checked) return checked;
        if (config.layer_types_count == 0) {
            auto const interval = config.own["full_attention_interval"];
            if (interval < 1) {
                return Error{ErrorCode::invalid_field}
                    .at("full_attention_interval")
                    .because("must be at least 1")
                    .got(interval);
            }
            config.local_layers = {};
            for (std::int64_t layer = 0; layer < config.layers; ++layer)
                if ((layer + 1) % interval != 0) config.local_layers.insert(layer);
        } else if (config.layer_types_count != config.layers) {
            return Error{ErrorCode::invalid_field}
                .at("layer_types")
                .because("does not have one entry per layer")
                .got(config.layer_types_count)
                .expected(config.layers);
        }
        config.own.set("full_attention_interval", 0);
        config.layer_types_count = config.layers;
        return {};
    }

    static constexpr ModuleId add_layer(ModuleTree& tree, ModelConfig const& config, std::string_view mixer_name,
                                        ModuleId mixer, ModuleId mlp) {
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const norm = part.norm("Qwen3NextRMSNorm", config.hidden_size);
        return tree.add(
            "Qwen3NextDecoderLayer", {},
            {{mixer_name, mixer}, {"mlp", mlp}, {"input_layernorm", norm}, {"post_attention_layernorm", norm}});
    }
    /// Of each head q_proj makes a query and a gate.
    static constexpr ModuleId add_gated_attention(ModuleTree& tree, ModelConfig const& config) {
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto children = detail::add_projections(part, config, config.attention_bias, config.attention_bias, 2);
        auto const norm = part.norm("Qwen3NextRMSNorm", config.head_dim);
        children.push_back({"q_norm", norm});
        children.push_back({"k_norm", norm});
        return tree.add("Qwen3NextAttention", children);
    }
    static constexpr ModuleId add_delta(ModuleTree& tree, ModelConfig const& config) {
        auto const dtype = config.dtype_or(Dtype::f32);
        detail::PartMaker part(tree, dtype);
        auto const shape = delta_shape(config);
        auto const hidden = config.hidden_size;
        auto const heads = shape.key_heads;
        auto const keys = heads * shape.key_dim;
        auto const values = shape.value_heads * shape.value_dim;
        auto const units = ShardRule::units(0, heads);
        // Of the kernel a rank reads the rows of its heads' queries, keys and values, which lie apart; it is small, and counted whole.
        Tensor const kernel{.name = "weight", .shape = {2 * keys + values, 1, shape.kernel}, .dtype = dtype};
        auto const vector = [&](std::string_view tensor) {
            return Tensor{.name = tensor, .shape = {shape.value_heads}, .dtype = dtype, .shard = units};
        };
        return tree.add("Qwen3NextGatedDeltaNet", {vector("dt_bias"), vector("A_log")},
                        {{"act", part.plain(activation_class(config.activation))},
                         {"conv1d", tree.add("Conv1d", {kernel})},
                         {"in_proj_qkvz", part.linear(2 * (keys + values), hidden, false, units)},
                         {"in_proj_ba", part.linear(2 * shape.value_heads, hidden, false, units)},
                         {"norm", part.norm("Qwen3NextRMSNormGated", shape.value_dim)},
                         {"out_proj", part.linear(hidden, values, false, ShardRule::units(1, heads))}});
    }

    static constexpr ValueId append_gated_attention(BlockBuilder& body, ModelConfig const& config, ValueId in) {
        auto const shape = detail::attention_shape(config);
        auto const dim = config.head_dim;
        auto const both = body.linear(in, "q_gate", "self_attn.q_proj");
        auto q = body.part(both, "q", 2 * dim, 0, dim);
        auto const gate = body.part(both, "gate", 2 * dim, dim, dim);
        auto k = body.linear(in, "k", "self_attn.k_proj");
        auto const v = body.linear(in, "v", "self_attn.v_proj");
        q = body.rope(body.head_norm(q, layout.norm, "self_attn.q_norm"), shape);
        k = body.rope(body.head_norm(k, layout.norm, "self_attn.k_norm"), shape);
        auto const context = body.gated(gate, body.attention(q, k, v, shape), ActivationKind::sigmoid);
        return body.linear(context, "attention_out", "self_attn.o_proj");
    }
    static constexpr ValueId append_delta(BlockBuilder& body, ModelConfig const& config, ValueId in) {
        auto const qkvz = body.linear(in, "qkvz", "linear_attn.in_proj_qkvz");
        auto const ba = body.linear(in, "ba", "linear_attn.in_proj_ba");
        auto const mixed = body.gated_delta(qkvz, ba, delta_shape(config), "linear_attn");
        return body.linear(mixed, "attention_out", "linear_attn.out_proj");
    }
};

static_assert(ModelArchitecture<Qwen3Next>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
