// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/sparse_mlp.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Phi-3.5-MoE: mixtral's experts after layer norms, chosen one after the other by the sparse mixer. llama.cpp chooses otherwise:
/// its files are not read.
///
/// Source  transformers 4.57 models/phimoe/modeling_phimoe.py
struct Phimoe {
    static constexpr std::string_view name = "phimoe";
    static constexpr std::string_view gguf_name{};

    static constexpr auto fields = detail::decoder_fields_without_head_dim(
        {.vocab_size = 32064,
         .hidden_size = 4096,
         .intermediate_size = 6400,
         .layers = 32,
         .heads = 32,
         .kv_heads = 8,
         .max_positions = 131072,
         .norm_epsilon = 1e-5,
         .rope_theta = 1000000.0},
        positive_field("num_local_experts", &ModelConfig::experts, 16),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 2),
        natural_field("sliding_window", &ModelConfig::sliding_window, 0), real_field("router_jitter_noise", 0.01),
        flag_field("attention_bias", &ModelConfig::attention_bias, false), flag_field("lm_head_bias", false));

    static constexpr std::array<NameAlias, 0> aliases{};
    static constexpr auto ending_aliases = detail::endings_of_numbered_experts;

    static constexpr detail::LlamaLayout layout{.prefix = "Phimoe",
                                                .classes = detail::text_label_classes,
                                                .norm_class = "LayerNorm",
                                                .attention_suffix = "SdpaAttention",
                                                .norm = NormKind::layer,
                                                .has_norm_bias = true,
                                                .mlp = "block_sparse_moe",
                                                .head_bias = "lm_head_bias"};

    /// attention_bias covers all four projections; intermediate_size is an expert's; a window is for all layers. Of scaled
    /// positions longrope is described, whose cosine and sine are multiplied by one number in short and long contexts.
    static constexpr Result<> complete(ModelConfig& config) {
        config.expert_intermediate_size = config.intermediate_size;
        if (auto const checked = detail::complete_decoder(config, layout); !checked) return checked;
        if (auto const checked = detail::check_experts(config); !checked) return checked;
        if (config.experts_per_token != 2) {
            return Error{ErrorCode::unsupported}
                .at("num_experts_per_tok")
                .because("is not 2, and the class chooses two")
                .got(config.experts_per_token);
        }
        auto& rope = config.rope;
        if (rope.kind != RopeKind::standard && rope.kind != RopeKind::longrope)
            return Error{ErrorCode::unsupported}.at("rope_scaling").because("is not longrope");
        if (rope.kind == RopeKind::longrope) {
            if (rope.short_mscale != rope.long_mscale || !(rope.short_mscale > 0.0)) {
                return Error{ErrorCode::unsupported}
                    .at("rope_scaling.short_mscale")
                    .because("is not long_mscale, and one model turns by one of them");
            }
            rope.attention_factor = rope.short_mscale;
        }
        config.router_score = RouterScore::sparse_mixer;
        config.norm_expert_weights = false;
        config.attention_out_bias = config.attention_bias;
        config.mlp_bias = false;
        config.dense_layers = {};
        config.layer_types_count = 0;
        return detail::complete_windows(config, [](std::int64_t) { return true; });
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const attention = detail::add_attention(tree, config, layout);
        auto const moe = detail::add_numbered_experts(tree, config, layout);
        auto const layer = detail::add_decoder_layer(tree, config, layout, attention, moe);
        detail::finish_decoder(tree, config, layout,
                               detail::DecoderParts{part.vocabulary(config.vocab_size, config.hidden_size),
                                                    {numbered(0, config.layers, layer, ModuleRole::layer)},
                                                    {{"rotary_emb", part.plain("PhimoeRotaryEmbedding")}}});
        return tree;
    }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::decoder_program(config, layout, tree, [&](BlockBuilder& body, ValueId in) {
            auto names = detail::numbered_experts;
            names.near_share = 2.0 * config.own.real("router_jitter_noise");
            return detail::append_experts(body, config, in, names);
        });
    }
};

static_assert(ModelArchitecture<Phimoe>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
