// SPDX-License-Identifier: Apache-2.0
#pragma once

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

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 50304).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 2560).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 6912).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 32).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 32).in_gguf("attention.head_count"),
        positive_field("num_key_value_heads", &ModelConfig::kv_heads, 32).in_gguf("attention.head_count_kv"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 4096).in_gguf("context_length"),
        flag_field("use_qkv_bias", &ModelConfig::attention_bias, false),
        flag_field("use_parallel_residual", &ModelConfig::parallel_attention, false).in_gguf("use_parallel_residual"),
        flag_field("qk_layernorm", &ModelConfig::qk_norm, false),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        rope_field("partial_rotary_factor", &RopeParameters::partial_rotary_factor, 0.25),
        rope_field("rope_theta", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        natural_field("rotary_dim", &ModelConfig::rotary_dim, 0).in_gguf("rope.dimension_count"),
        real_field("layer_norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_epsilon"),
        activation_field("hidden_act", ActivationKind::silu),
    };

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
        if (auto const checked =
                detail::check_class(config, {"StableLmForCausalLM", "StableLmModel",
                                             "StableLmForSequenceClassification", "StableLmForTokenClassification"});
            !checked)
            return checked;
        config.head_dim = 0;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
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
        if (!config.parallel_attention) children.push_back({"post_attention_layernorm", norm});
        children.push_back({"dropout", dropout});
        auto const layer = tree.add("StableLmDecoderLayer", children);
        detail::finish_decoder(tree, config, layout, {numbered(0, config.layers, layer, ModuleRole::layer)},
                               config.rotary_dim);
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        auto chosen = layout;
        chosen.is_parallel = config.parallel_attention;
        return detail::dense_decoder_program(config, chosen, tree);
    }
};

static_assert(ModelArchitecture<StableLm>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
