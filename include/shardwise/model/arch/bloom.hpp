// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/classic_decoder.hpp>
#include <shardwise/model/arch/detail/label_head.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// BLOOM: ALiBi in place of positions, a norm over the embeddings, q, k and v interleaved by head in one projection.
///
/// Source  transformers 4.57 models/bloom/modeling_bloom.py
struct Bloom {
    static constexpr std::string_view name = "bloom";
    static constexpr std::string_view gguf_name = "bloom";
    static constexpr std::string_view base_name = "transformer";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 250880).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 64).formerly("n_embed").in_gguf("embedding_length"),
        positive_field("n_layer", &ModelConfig::layers, 2).named("num_hidden_layers").in_gguf("block_count"),
        positive_field("n_head", &ModelConfig::heads, 8).named("num_attention_heads").in_gguf("attention.head_count"),
        natural_field("seq_length", &ModelConfig::max_positions, 0).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        flag_field("apply_residual_connection_post_layernorm", false),
        real_field("layer_norm_epsilon", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_epsilon"),
    };

    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "transformer.word_embeddings.weight"},
        NameAlias{"token_embd_norm.weight", "transformer.word_embeddings_layernorm.weight"},
        NameAlias{"token_embd_norm.bias", "transformer.word_embeddings_layernorm.bias"},
        NameAlias{"blk.{}.attn_norm.weight", "transformer.h.{}.input_layernorm.weight"},
        NameAlias{"blk.{}.attn_norm.bias", "transformer.h.{}.input_layernorm.bias"},
        NameAlias{"blk.{}.attn_qkv.weight", "transformer.h.{}.self_attention.query_key_value.weight"},
        NameAlias{"blk.{}.attn_qkv.bias", "transformer.h.{}.self_attention.query_key_value.bias"},
        NameAlias{"blk.{}.attn_output.weight", "transformer.h.{}.self_attention.dense.weight"},
        NameAlias{"blk.{}.attn_output.bias", "transformer.h.{}.self_attention.dense.bias"},
        NameAlias{"blk.{}.ffn_norm.weight", "transformer.h.{}.post_attention_layernorm.weight"},
        NameAlias{"blk.{}.ffn_norm.bias", "transformer.h.{}.post_attention_layernorm.bias"},
        NameAlias{"blk.{}.ffn_up.weight", "transformer.h.{}.mlp.dense_h_to_4h.weight"},
        NameAlias{"blk.{}.ffn_up.bias", "transformer.h.{}.mlp.dense_h_to_4h.bias"},
        NameAlias{"blk.{}.ffn_down.weight", "transformer.h.{}.mlp.dense_4h_to_h.weight"},
        NameAlias{"blk.{}.ffn_down.bias", "transformer.h.{}.mlp.dense_4h_to_h.bias"},
        NameAlias{"output_norm.weight", "transformer.ln_f.weight"},
        NameAlias{"output_norm.bias", "transformer.ln_f.bias"},
        NameAlias{"output.weight", "lm_head.weight"},
    };

    /// The MLP is four times as wide as the model. ALiBi bounds no context; seq_length is what the model was trained
    /// with.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "Bloom", detail::label_classes); !known) return known;
        if (auto const ok = detail::check_size("hidden_size", config.hidden_size); !ok) return ok;
        config.intermediate_size = 4 * config.hidden_size;
        config.kv_heads = config.heads;
        if (auto const ok = detail::check_sizes(config, {.layers = "n_layer", .heads = "n_head"}); !ok) return ok;
        config.head_dim = config.hidden_size / config.heads;
        config.alibi = true;
        config.activation = ActivationKind::gelu_tanh;
        return {};
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const width = config.intermediate_size;
        auto const norm = detail::add_layer_norm(part, hidden);
        auto const attention = tree.add(
            "BloomAttention", {},
            {{"query_key_value",
              part.linear(3 * hidden, hidden, true, ShardRule::units(0, config.heads), TensorUse::attention_qkv)},
             {"dense",
              part.linear(hidden, hidden, true, ShardRule::units(1, config.heads), TensorUse::attention_output)},
             {"attention_dropout", part.plain("Dropout")}});
        auto const mlp = tree.add(
            "BloomMLP", {},
            {{"dense_h_to_4h", part.linear(width, hidden, true, ShardRule::units(0, width), TensorUse::ffn_up)},
             {"gelu_impl", part.plain("BloomGelu")},
             {"dense_4h_to_h", part.linear(hidden, width, true, ShardRule::units(1, width), TensorUse::ffn_down)}});
        auto const block = tree.add("BloomBlock", {},
                                    {{"input_layernorm", norm},
                                     {"self_attention", attention},
                                     {"post_attention_layernorm", norm},
                                     {"mlp", mlp}});
        tree.keep_whole("BloomBlock");
        auto const list = tree.add("ModuleList", {}, {numbered(0, config.layers, block, ModuleRole::layer)});
        auto const model =
            tree.add("BloomModel", {},
                     {{"word_embeddings", part.vocabulary(config.vocab_size, hidden), ModuleRole::embedding},
                      {"word_embeddings_layernorm", norm, ModuleRole::embedding},
                      {"h", list},
                      {"ln_f", norm, ModuleRole::norm}});
        tree.set_root(model);
        if (config.labels > 0) {
            detail::add_label_head(tree, config, "transformer", model, hidden, "classifier");
            return tree;
        }
        if (!has_head(config)) return tree;
        auto const head =
            part.linear(config.vocab_size, hidden, false, ShardRule::units(0, config.vocab_size), TensorUse::head);
        tree.set_root(tree.add("BloomForCausalLM", {}, {{"transformer", model}, {"lm_head", head, ModuleRole::head}}));
        if (config.tie_word_embeddings) tree.tie("transformer.word_embeddings.weight", "lm_head.weight");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, base_name);
        model.tokens("word_embeddings");
        model.norm("word_embeddings_layernorm", NormKind::layer);
        model.layers("h", [&](BlockBuilder& body) {
            auto const normed = body.layer_norm(body.input(), "input_layernorm");
            auto const qkv = body.linear(normed, "qkv", "self_attention.query_key_value");
            auto const context = body.attention(qkv, qkv, qkv, detail::plain_attention(config));
            auto const attended = body.linear(context, "attention_out", "self_attention.dense");
            bool const is_from_norm = config.own["apply_residual_connection_post_layernorm"] != 0;
            auto const middle = body.add(is_from_norm ? normed : body.input(), attended);
            auto const normed_again = body.layer_norm(middle, "post_attention_layernorm");
            auto const mlp = detail::append_mlp(body, config, normed_again, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
            (void)body.add(is_from_norm ? normed_again : middle, mlp);
        });
        model.norm("ln_f", NormKind::layer);
        detail::append_label_head(model, config, "classifier");
        model.head("lm_head");
        return std::move(model).finish();
    }

private:
    static constexpr bool has_head(ModelConfig const& config) {
        return config.model_class.view() == "BloomForCausalLM";
    }
};

static_assert(ModelArchitecture<Bloom>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
