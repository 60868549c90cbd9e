// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/decoder_program.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// StableLM: layer norms, heads that turn in part, attention and MLP in parallel where configured, a norm for each head of queries and
/// keys where configured.
///
/// Source  transformers 4.57 models/stablelm/modeling_stablelm.py
struct StableLm {
    static constexpr std::string_view name = "stablelm";
    static constexpr std::string_view gguf_name = "stablelm";

    static constexpr auto fields = detail::decoder_fields_without_head_dim(
        {.vocab_size = 50304,
         .hidden_size = 2560,
         .intermediate_size = 6912,
         .layers = 32,
         .heads = 32,
         .kv_heads = 32,
         .max_positions = 4096,
         .has_nullable_kv_heads = false,
         .layer_norm_key = "layer_norm_eps",
         .norm_epsilon = 1e-5},
        flag_field("use_qkv_bias", &ModelConfig::attention_bias, false),
        flag_field("use_parallel_residual", false).in_gguf("use_parallel_residual"),
        flag_field("qk_layernorm", &ModelConfig::qk_norm, false), detail::partial_rotary_field(0.25),
        detail::rotary_dim_field);

    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_llama, detail::gguf_norm_biases,
        std::array{NameAlias{"blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_layernorm.norms.*.weight"},
                   NameAlias{"blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_layernorm.norms.*.weight"}});

    static constexpr detail::LlamaLayout layout{.prefix = "StableLm",
                                                .norm_class = "LayerNorm",
                                                .attention_suffix = "SdpaAttention",
                                                .norm = NormKind::layer,
                                                .has_norm_bias = true,
                                                .head_norms = {"q_layernorm.norms.*", "k_layernorm.norms.*"}};

    /// Files do not state whether heads are normed.
    static void infer_from_gguf(GgufTensorNames const& names, ModelConfig& config) {
        config.qk_norm = names.has("blk.0.attn_q_norm.weight");
    }

    static constexpr Result<> complete(ModelConfig& config) {
        config.head_dim = 0;
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        config.attention_out_bias = config.mlp_bias = false;
        return detail::derive_rotary_dim(config, "partial_rotary_factor");
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const dropout = part.plain("Dropout");
        auto parts = detail::add_projections(part, config, config.attention_bias, false);
        if (config.qk_norm) {
            auto const norm_of_head = part.norm("LayerNorm", config.head_dim);
            auto const norms = [&](std::int64_t heads) {
                auto const list = tree.add("ModuleList", {}, {numbered(0, heads, norm_of_head)});
                return tree.add("StableLmLayerNormPerHead", {}, {{"norms", list}});
            };
            parts.push_back({"q_layernorm", norms(config.heads)});
            parts.push_back({"k_layernorm", norms(config.kv_heads)});
        }
        parts.push_back({"attention_dropout", dropout});
        parts.push_back({"rotary_emb", part.rotary("StableLmRotaryEmbedding", config.rotary_dim)});
        auto const attention = tree.add("StableLmSdpaAttention", parts);
        auto const mlp = detail::add_gated_mlp(tree, config, layout, config.intermediate_size);
        auto const norm = detail::add_decoder_norm(part, layout, config.hidden_size);
        List<Child> children{{"self_attn", attention}, {"mlp", mlp}, {"input_layernorm", norm}};
        if (config.own["use_parallel_residual"] == 0) children.push_back({"post_attention_layernorm", norm});
        children.push_back({"dropout", dropout});
        auto const layer = tree.add("StableLmDecoderLayer", children);
        detail::finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)},
                               config.rotary_dim);
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        auto chosen = layout;
        chosen.is_parallel = config.own["use_parallel_residual"] != 0;
        return detail::dense_decoder_program(config, chosen, tree);
    }
};

static_assert(ModelArchitecture<StableLm>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
