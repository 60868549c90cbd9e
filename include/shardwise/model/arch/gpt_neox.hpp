// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/classic_decoder.hpp>
#include <shardwise/model/arch/detail/label_head.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// GPT-NeoX and Pythia: q, k and v interleaved by head in one projection, attention and MLP in parallel.
///
/// Source  transformers 4.57 models/gpt_neox/modeling_gpt_neox.py
struct GptNeoX {
    static constexpr std::string_view name = "gpt_neox";
    static constexpr std::string_view gguf_name = "gptneox";
    static constexpr std::string_view base_name = "gpt_neox";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 50432).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 6144).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 24576).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 44).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 64).in_gguf("attention.head_count"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 2048).in_gguf("context_length"),
        rope_field("rotary_pct", &RopeParameters::partial_rotary_factor, 0.25),
        rope_field("rotary_emb_base", &RopeParameters::theta, 10000.0).in_gguf("rope.freq_base"),
        natural_field("rotary_dim", &ModelConfig::rotary_dim, 0).in_gguf("rope.dimension_count"),
        flag_field("use_parallel_residual", true).in_gguf("use_parallel_residual"),
        flag_field("attention_bias", &ModelConfig::attention_bias, true),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, false),
        real_field("layer_norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_epsilon"),
        activation_field("hidden_act", ActivationKind::gelu),
    };

    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "gpt_neox.embed_in.weight"},
        NameAlias{"blk.{}.attn_norm.weight", "gpt_neox.layers.{}.input_layernorm.weight"},
        NameAlias{"blk.{}.attn_norm.bias", "gpt_neox.layers.{}.input_layernorm.bias"},
        NameAlias{"blk.{}.ffn_norm.weight", "gpt_neox.layers.{}.post_attention_layernorm.weight"},
        NameAlias{"blk.{}.ffn_norm.bias", "gpt_neox.layers.{}.post_attention_layernorm.bias"},
        NameAlias{"blk.{}.attn_qkv.weight", "gpt_neox.layers.{}.attention.query_key_value.weight"},
        NameAlias{"blk.{}.attn_qkv.bias", "gpt_neox.layers.{}.attention.query_key_value.bias"},
        NameAlias{"blk.{}.attn_output.weight", "gpt_neox.layers.{}.attention.dense.weight"},
        NameAlias{"blk.{}.attn_output.bias", "gpt_neox.layers.{}.attention.dense.bias"},
        NameAlias{"blk.{}.ffn_up.weight", "gpt_neox.layers.{}.mlp.dense_h_to_4h.weight"},
        NameAlias{"blk.{}.ffn_up.bias", "gpt_neox.layers.{}.mlp.dense_h_to_4h.bias"},
        NameAlias{"blk.{}.ffn_down.weight", "gpt_neox.layers.{}.mlp.dense_4h_to_h.weight"},
        NameAlias{"blk.{}.ffn_down.bias", "gpt_neox.layers.{}.mlp.dense_4h_to_h.bias"},
        NameAlias{"output_norm.weight", "gpt_neox.final_layer_norm.weight"},
        NameAlias{"output_norm.bias", "gpt_neox.final_layer_norm.bias"},
        NameAlias{"output.weight", "embed_out.weight"},
    };

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "GPTNeoX", detail::label_classes); !known) return known;
        config.kv_heads = config.heads;
        if (auto const ok = detail::check_sizes(config, {}); !ok) return ok;
        config.head_dim = config.hidden_size / config.heads;
        return detail::derive_rotary_dim(config, "rotary_pct");
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const width = config.intermediate_size;
        bool const bias = config.attention_bias;
        auto const norm = detail::add_layer_norm(part, hidden);
        auto const dropout = part.plain("Dropout");
        auto const attention = tree.add(
            "GPTNeoXAttention", {},
            {{"query_key_value",
              part.linear(3 * hidden, hidden, bias, ShardRule::units(0, config.heads), TensorUse::attention_qkv)},
             {"dense",
              part.linear(hidden, hidden, bias, ShardRule::units(1, config.heads), TensorUse::attention_output)}});
        auto const mlp = tree.add(
            "GPTNeoXMLP", {},
            {{"dense_h_to_4h", part.linear(width, hidden, true, ShardRule::units(0, width), TensorUse::ffn_up)},
             {"dense_4h_to_h", part.linear(hidden, width, true, ShardRule::units(1, width), TensorUse::ffn_down)},
             {"act", part.plain(activation_class(config.activation))}});
        auto const layer = tree.add("GPTNeoXLayer", {},
                                    {{"input_layernorm", norm},
                                     {"post_attention_layernorm", norm},
                                     {"post_attention_dropout", dropout},
                                     {"post_mlp_dropout", dropout},
                                     {"attention", attention},
                                     {"mlp", mlp}});
        tree.keep_whole("GPTNeoXLayer");
        auto const list = tree.add("ModuleList", {}, {numbered(0, config.layers, layer, ModuleRole::layer)});
        auto const model =
            tree.add("GPTNeoXModel", {},
                     {{"embed_in", part.vocabulary(config.vocab_size, hidden), ModuleRole::embedding},
                      {"emb_dropout", dropout},
                      {"layers", list},
                      {"final_layer_norm", norm, ModuleRole::norm},
                      {"rotary_emb", part.rotary("GPTNeoXRotaryEmbedding", round_up(config.rotary_dim, 2))}});
        tree.set_root(model);
        if (config.labels > 0) {
            detail::add_label_head(tree, config, "gpt_neox", model, hidden, "classifier");
            return tree;
        }
        if (!has_head(config)) return tree;
        auto const head =
            part.linear(config.vocab_size, hidden, false, ShardRule::units(0, config.vocab_size), TensorUse::head);
        tree.set_root(tree.add("GPTNeoXForCausalLM", {}, {{"gpt_neox", model}, {"embed_out", head, ModuleRole::head}}));
        if (config.tie_word_embeddings) tree.tie("gpt_neox.embed_in.weight", "embed_out.weight");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, base_name);
        model.tokens("embed_in");
        model.layers("layers", [&](BlockBuilder& body) {
            auto const shape = detail::plain_attention(config);
            auto const normed = body.layer_norm(body.input(), "input_layernorm");
            auto const qkv = body.rope(body.linear(normed, "qkv", "attention.query_key_value"), shape);
            auto const context = body.attention(qkv, qkv, qkv, shape);
            auto const middle = body.add(body.input(), body.linear(context, "attention_out", "attention.dense"));
            auto const normed_again = body.layer_norm(config.own["use_parallel_residual"] != 0 ? body.input() : middle,
                                                      "post_attention_layernorm");
            (void)body.add(middle,
                           detail::append_mlp(body, config, normed_again, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"));
        });
        model.norm("final_layer_norm", NormKind::layer);
        detail::append_label_head(model, config, "classifier");
        model.head("embed_out");
        return std::move(model).finish();
    }

private:
    static constexpr bool has_head(ModelConfig const& config) {
        return config.model_class.view() == "GPTNeoXForCausalLM";
    }
};

static_assert(ModelArchitecture<GptNeoX>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
