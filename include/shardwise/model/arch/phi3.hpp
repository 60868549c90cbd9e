// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/fused_mlp.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Phi-3, Phi-3.5 and Phi-4: one projection for q, k and v, one for gate and up.
///
/// Source  transformers 4.57 models/phi3/modeling_phi3.py
struct Phi3 {
    static constexpr std::string_view name = "phi3";
    static constexpr std::string_view gguf_name = "phi3";

    static constexpr auto fields = detail::decoder_fields_without_head_dim(
        {.vocab_size = 32064,
         .hidden_size = 3072,
         .intermediate_size = 8192,
         .layers = 32,
         .heads = 32,
         .max_positions = 4096,
         .norm_epsilon = 1e-5},
        optional_field("head_dim", &ModelConfig::head_dim, 0), detail::window_field(0),
        detail::partial_rotary_field(1.0), detail::rotary_dim_field);

    static constexpr auto aliases =
        detail::join_aliases(detail::gguf_frame, detail::gguf_second_norm,
                             std::array{
                                 NameAlias{"blk.{}.attn_qkv.weight", "model.layers.{}.self_attn.qkv_proj.weight"},
                                 NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.gate_up_proj.weight"},
                                 NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"},
                             });

    static constexpr detail::LlamaLayout layout{.prefix = "Phi3"};

    /// No projection has a bias; a window is for all layers; the rotated part of a head lies within it. Of scaled positions the
    /// class knows longrope alone, also under its former names, and an original context of 4096 where none is given.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (auto const derived = detail::derive_rotary_dim(config, "partial_rotary_factor"); !derived) return derived;
        auto& rope = config.rope;
        if (rope.kind == RopeKind::yarn) rope.kind = RopeKind::longrope;
        if (rope.kind == RopeKind::longrope && rope.original_max_positions == 0) rope.original_max_positions = 4096;
        config.attention_bias = config.attention_out_bias = config.mlp_bias = false;
        config.layer_types_count = 0;
        return detail::complete_windows(config, [](std::int64_t) { return true; });
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const q_width = config.heads * config.head_dim;
        auto const o = part.linear(config.hidden_size, q_width, false, ShardRule::units(1, config.heads),
                                   TensorUse::attention_output);
        auto const qkv = part.linear(q_width + 2 * config.kv_heads * config.head_dim, config.hidden_size, false,
                                     ShardRule::qkv(0, config.heads, config.kv_heads), TensorUse::attention_qkv);
        auto const attention = tree.add("Phi3Attention", {}, {{"o_proj", o}, {"qkv_proj", qkv}});
        auto const mlp = detail::add_fused_mlp(tree, config, layout);
        auto const norm = part.norm("Phi3RMSNorm", config.hidden_size);
        auto const dropout = part.plain("Dropout");
        auto const layer = tree.add("Phi3DecoderLayer", {},
                                    {{"self_attn", attention},
                                     {"mlp", mlp},
                                     {"input_layernorm", norm},
                                     {"post_attention_layernorm", norm},
                                     {"resid_attn_dropout", dropout},
                                     {"resid_mlp_dropout", dropout}});
        detail::finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)},
                               config.rotary_dim);
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        auto const attend = [&](BlockBuilder& body, ValueId in, detail::LayerKind const& kind) {
            auto const shape = detail::attention_shape(config, kind.window);
            auto const qkv = body.rope(body.linear(in, "qkv", "self_attn.qkv_proj"), shape);
            return body.linear(body.attention(qkv, qkv, qkv, shape), "attention_out", "self_attn.o_proj");
        };
        return detail::decoder_program(config, layout, tree, attend, [&](BlockBuilder& body, ValueId in) {
            return detail::append_fused_mlp(body, config, in);
        });
    }
};

static_assert(ModelArchitecture<Phi3>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
