// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/gguf_names.hpp>
#include <shardwise/model/arch/detail/sparse_mlp.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The text part of Llama 4 (Scout, Maverick): chunked attention in the layers that turn, stacked experts beside a shared one.
///
/// Source  transformers 4.57 models/llama4/modeling_llama4.py
struct Llama4Text {
    static constexpr std::string_view name = "llama4_text";
    static constexpr std::string_view gguf_name = "llama4";
    /// Of each expert all rows of the gate come before those of up.
    static constexpr GgufForm gguf_form{.last_rows = ".ffn_up_exps."};

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 202048).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 5120).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::expert_intermediate_size, 8192)
            .in_gguf("expert_feed_forward_length"),
        positive_field("intermediate_size_mlp", &ModelConfig::intermediate_size, 16384).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 48).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 40).in_gguf("attention.head_count"),
        optional_field("num_key_value_heads", &ModelConfig::kv_heads, 8).in_gguf("attention.head_count_kv"),
        optional_field("head_dim", &ModelConfig::head_dim, 128).in_gguf("attention.key_length"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 131072).in_gguf("context_length"),
        positive_field("num_experts_per_tok", &ModelConfig::experts_per_token, 1).in_gguf("expert_used_count"),
        positive_field("num_local_experts", &ModelConfig::experts, 16).in_gguf("expert_count"),
        positive_field("interleave_moe_layer_step", &ModelConfig::decoder_sparse_step, 1)
            .in_gguf("interleave_moe_layer_step"),
        positive_field("no_rope_layer_interval", &ModelConfig::rope_free_interval, 4),
        natural_field("attention_chunk_size", 8192).in_gguf("attention.sliding_window"),
        positive_field("floor_scale", 8192),
        real_field("attn_scale", 0.1),
        flag_field("attn_temperature_tuning", true),
        flag_field("use_qk_norm", &ModelConfig::qk_norm, true),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        real_field("rms_norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_rms_epsilon"),
        rope_field("rope_theta", &RopeParameters::theta, 500000.0).in_gguf("rope.freq_base"),
        activation_field("hidden_act", ActivationKind::silu),
    };

    static constexpr std::string_view local_kind = "chunked_attention";
    static constexpr std::string_view sparse_layers_key = "moe_layers";

    /// GGUF splits gate from up.
    static constexpr auto aliases = detail::join_aliases(
        detail::gguf_frame, detail::gguf_qkv, detail::gguf_second_norm,
        std::array{
            NameAlias{"blk.{}.ffn_gate.weight", "model.layers.{}.feed_forward.gate_proj.weight"},
            NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.feed_forward.up_proj.weight"},
            NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.feed_forward.down_proj.weight"},
            NameAlias{"blk.{}.ffn_gate_inp.weight", "model.layers.{}.feed_forward.router.weight"},
            NameAlias{"blk.{}.ffn_gate_exps.weight", "model.layers.{}.feed_forward.experts.gate_up_proj"},
            NameAlias{"blk.{}.ffn_up_exps.weight", "model.layers.{}.feed_forward.experts.gate_up_proj"},
            NameAlias{"blk.{}.ffn_down_exps.weight", "model.layers.{}.feed_forward.experts.down_proj"},
            NameAlias{"blk.{}.ffn_gate_shexp.weight", "model.layers.{}.feed_forward.shared_expert.gate_proj.weight"},
            NameAlias{"blk.{}.ffn_up_shexp.weight", "model.layers.{}.feed_forward.shared_expert.up_proj.weight"},
            NameAlias{"blk.{}.ffn_down_shexp.weight", "model.layers.{}.feed_forward.shared_expert.down_proj.weight"},
        });

    static constexpr std::array gguf_defaults{
        GgufDefault(
            "use_qk_norm", [](ModelConfig& config) { config.qk_norm = config.experts != 128; },
            "llama.cpp 0c1e570, src/models/llama4.cpp: use_kq_norm"),
        GgufDefault(
            "no_rope_layer_interval",
            [](ModelConfig& config) {
                bool const has_chunks = config.own["attention_chunk_size"] > 0;
                config.own.set("attention_chunk_size", has_chunks ? 8192 : 0);
                config.own.set("attn_temperature_tuning", has_chunks ? 1 : 0);
                config.rope_free_interval = has_chunks ? 4 : config.layers + 1;
            },
            "llama.cpp 0c1e570, src/models/llama4.cpp: n_swa, load_swa_pattern, n_no_rope_layer_step"),
    };

    static constexpr detail::LlamaLayout layout{
        .prefix = "Llama4Text", .norm_class = "Llama4TextRMSNorm", .mlp = "feed_forward"};

    /// Layers that turn see their own chunk, those that do not see everything.
    static constexpr Result<> complete(ModelConfig& config) {
        if (config.model_class.view() == "Llama4ForConditionalGeneration") config.model_class = "Llama4ForCausalLM";
        if (auto const checked = detail::check_class(config, {"Llama4ForCausalLM", "Llama4TextModel"}); !checked)
            return checked;
        if (auto const checked = detail::complete_heads(config); !checked) return checked;
        if (auto const checked = detail::complete_rope_free_layers(config); !checked) return checked;
        if (auto const checked = detail::complete_sparse_layers(config); !checked) return checked;
        if (auto const checked = detail::check_experts(config); !checked) return checked;
        config.attention_bias = config.attention_out_bias = config.mlp_bias = false;
        config.interleaved_rope = true;
        config.router_score = RouterScore::sigmoid;
        config.norm_expert_weights = false;
        config.sliding_window = config.own["attention_chunk_size"];
        return detail::complete_windows(config,
                                        [&](std::int64_t layer) { return !config.rope_free_layers.contains(layer); });
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        auto const width = config.expert_intermediate_size;
        std::array<ModuleId, 4> kinds{};
        std::array<bool, 4> made{};
        List<Child> layers;
        for (std::int64_t layer = 0; layer < config.layers; ++layer) {
            bool const is_dense = config.dense_layers.contains(layer);
            bool const turns = !config.rope_free_layers.contains(layer);
            auto const kind = (is_dense ? 1U : 0U) + (turns ? 2U : 0U);
            if (!made[kind]) {
                auto const mlp =
                    is_dense ? add_mlp(tree, config, config.intermediate_size) : add_moe(tree, config, width);
                kinds[kind] = detail::add_decoder_layer(tree, config, layout, add_attention(tree, config, turns), mlp);
                made[kind] = true;
            }
            if (!layers.empty() && layers.back().module == kinds[kind])
                ++layers.back().count;
            else
                layers.push_back(numbered(layer, 1, kinds[kind], ModuleRole::layer));
        }
        detail::finish_decoder(tree, config, layout, layers, config.head_dim);
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        auto const attend = [&](BlockBuilder& body, ValueId in, detail::LayerKind const& kind) {
            return append_chunked(body, config, in, kind);
        };
        return detail::decoder_program(config, layout, tree, attend, [&](BlockBuilder& body, ValueId in) {
            if (!body.has("feed_forward.experts")) return detail::append_gated_mlp(body, config, in, "feed_forward");
            auto const all = detail::append_gated_mlp(body, config, in, "feed_forward.shared_expert");
            return body.add(all, append_experts(body, config, in));
        });
    }

private:
    static constexpr ModuleId add_attention(ModuleTree& tree, ModelConfig const& config, bool turns) {
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto children = detail::add_projections(part, config, false, false);
        if (config.qk_norm && turns) children.push_back({"qk_norm", part.plain("Llama4TextL2Norm")});
        return tree.add("Llama4TextAttention", children);
    }
    static constexpr ModuleId add_mlp(ModuleTree& tree, ModelConfig const& config, std::int64_t width) {
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const in = part.linear(width, config.hidden_size, false, ShardRule::units(0, width), TensorUse::ffn_up);
        auto const out = part.linear(config.hidden_size, width, false, ShardRule::units(1, width), TensorUse::ffn_down);
        return tree.add("Llama4TextMLP", {},
                        {{"gate_proj", in},
                         {"up_proj", in},
                         {"down_proj", out},
                         {"activation_fn", part.plain(activation_class(config.activation))}});
    }
    /// Weights are [experts, in, out]; all gates come before all ups.
    static constexpr ModuleId add_moe(ModuleTree& tree, ModelConfig const& config, std::int64_t width) {
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const count = config.experts;
        Tensor both{.name = "gate_up_proj",
                    .shape = {count, config.hidden_size, 2 * width},
                    .dtype = config.dtype_or(Dtype::f32),
                    .use = TensorUse::ffn_up,
                    .is_transposed = true,
                    .shard = ShardRule::packed(2, 2, width).stacked(count)};
        Tensor down{.name = "down_proj",
                    .shape = {count, width, config.hidden_size},
                    .dtype = config.dtype_or(Dtype::f32),
                    .use = TensorUse::ffn_down,
                    .is_transposed = true,
                    .shard = ShardRule::units(1, width).stacked(count)};
        auto const experts =
            tree.add("Llama4TextExperts", {both, down}, {{"act_fn", part.plain(activation_class(config.activation))}});
        auto const router =
            tree.add("Llama4Router", {part.tensors().weight(count, config.hidden_size, {}, TensorUse::router)});
        return tree.add("Llama4TextMoe", {},
                        {{"experts", experts}, {"router", router}, {"shared_expert", add_mlp(tree, config, width)}});
    }

    static constexpr ValueId append_chunked(BlockBuilder& body, ModelConfig const& config, ValueId in,
                                            detail::LayerKind const& kind) {
        auto shape = detail::attention_shape(config, kind.window);
        shape.chunk = kind.window;
        bool const grows = config.own["attn_temperature_tuning"] != 0;
        if (!kind.has_rope && grows) {
            shape.score_step = config.own["floor_scale"];
            shape.score_growth = config.own.real("attn_scale");
        }
        auto q = body.linear(in, "q", "self_attn.q_proj");
        auto k = body.linear(in, "k", "self_attn.k_proj");
        auto const v = body.linear(in, "v", "self_attn.v_proj");
        if (kind.has_rope) {
            q = body.rope(q, shape);
            k = body.rope(k, shape);
        }
        if (body.has("self_attn.qk_norm")) {
            q = body.plain_head_norm(q, NormKind::rms, config.head_dim);
            k = body.plain_head_norm(k, NormKind::rms, config.head_dim);
        }
        return body.linear(body.attention(q, k, v, shape), "attention_out", "self_attn.o_proj");
    }
    static constexpr ValueId append_experts(BlockBuilder& body, ModelConfig const& config, ValueId in) {
        auto const routes = body.route(body.linear(in, "router", "feed_forward.router"), config);
        auto const both = body.stacked_experts(in, routes, "gate_up", "feed_forward.experts.gate_up_proj", {},
                                               {.weighs_inputs = true});
        auto const activated = body.gated_halves(both, config.activation);
        auto const down = body.stacked_experts(activated, routes, "experts_out", "feed_forward.experts.down_proj", {});
        return body.combine(down, routes);
    }
};

static_assert(ModelArchitecture<Llama4Text>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
