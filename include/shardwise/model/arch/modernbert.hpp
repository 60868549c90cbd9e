// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/bert_layout.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/gguf_default.hpp>

#include <array>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// ModernBERT: an encoder with rotary positions, windows on both sides in two of three layers, and a gated MLP.
///
/// Source  transformers 4.57 models/modernbert/modeling_modernbert.py
struct ModernBert {
    static constexpr std::string_view name = "modernbert";
    static constexpr std::string_view gguf_name = "modern-bert";
    static constexpr std::string_view gguf_class = "ModernBertModel";
    /// Of n layers the first sees everything: llama.cpp 0c1e570, src/models/modern-bert.cpp, load_swa_pattern.
    static constexpr bool gguf_full_layer_first = true;
    static constexpr std::array unread_keys{UnreadKey{"classifier_activation", "\"gelu\""}};

    static constexpr std::array<std::string_view, 2> poolings{"cls", "mean"};
    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 50368).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 768).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 1152).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 22).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 12).in_gguf("attention.head_count"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 8192).in_gguf("context_length"),
        positive_field("local_attention", &ModelConfig::sliding_window, 128).in_gguf("attention.sliding_window"),
        positive_field("global_attn_every_n_layers", 3),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        flag_field("attention_bias", &ModelConfig::attention_bias, false),
        flag_field("mlp_bias", &ModelConfig::mlp_bias, false),
        flag_field("decoder_bias", true),
        flag_field("norm_bias", false),
        flag_field("classifier_bias", false),
        choice_field("classifier_pooling", poolings),
        real_field("norm_eps", &ModelConfig::norm_epsilon, 1e-5).in_gguf("attention.layer_norm_epsilon"),
        rope_field("global_rope_theta", &RopeParameters::theta, 160000.0).in_gguf("rope.freq_base"),
        rope_field("local_rope_theta", &RopeParameters::local_theta, 10000.0).in_gguf("rope.freq_base_swa"),
        activation_field("hidden_activation", ActivationKind::gelu),
    };

    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "model.embeddings.tok_embeddings.weight"},
        NameAlias{"token_embd_norm.weight", "model.embeddings.norm.weight"},
        NameAlias{"output_norm.weight", "model.final_norm.weight"},
        NameAlias{"blk.{}.attn_norm.weight", "model.layers.{}.attn_norm.weight"},
        NameAlias{"blk.{}.attn_qkv.weight", "model.layers.{}.attn.Wqkv.weight"},
        NameAlias{"blk.{}.attn_qkv.bias", "model.layers.{}.attn.Wqkv.bias"},
        NameAlias{"blk.{}.attn_output.weight", "model.layers.{}.attn.Wo.weight"},
        NameAlias{"blk.{}.attn_output.bias", "model.layers.{}.attn.Wo.bias"},
        NameAlias{"blk.{}.ffn_norm.weight", "model.layers.{}.mlp_norm.weight"},
        NameAlias{"blk.{}.ffn_up.weight", "model.layers.{}.mlp.Wi.weight"},
        NameAlias{"blk.{}.ffn_up.bias", "model.layers.{}.mlp.Wi.bias"},
        NameAlias{"blk.{}.ffn_down.weight", "model.layers.{}.mlp.Wo.weight"},
        NameAlias{"blk.{}.ffn_down.bias", "model.layers.{}.mlp.Wo.bias"},
    };

    static constexpr std::array gguf_defaults{
        GgufDefault(
            "local_rope_theta", [](ModelConfig& config) { config.rope.local_theta = 10000.0; },
            "llama.cpp 0c1e570, src/llama-hparams.h: rope_freq_base_train_swa"),
    };

    /// attention_bias covers both projections. Without layer_types, layers 0, n, 2n, ... see everything.
    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(
                config, {"ModernBertForMaskedLM", "ModernBertModel", "ModernBertForSequenceClassification",
                         "ModernBertForTokenClassification"});
            !known)
            return known;
        bool const has_mlp_bias = config.mlp_bias;
        bool const has_bias = config.attention_bias;
        if (auto const ok = detail::complete_encoder(config); !ok) return ok;
        config.attention_bias = config.attention_out_bias = has_bias;
        config.mlp_bias = has_mlp_bias;
        if (auto const ok = detail::check_size("local_attention", config.sliding_window); !ok) return ok;
        auto const every = config.own["global_attn_every_n_layers"];
        if (auto const ok = detail::check_size("global_attn_every_n_layers", every); !ok) return ok;
        return detail::complete_windows(config, [&](std::int64_t layer) { return layer % every != 0; });
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const norm = add_norm(part, config);
        auto const embeddings = tree.add("ModernBertEmbeddings", {},
                                         {{"tok_embeddings", part.vocabulary(config.vocab_size, hidden)},
                                          {"norm", norm},
                                          {"drop", part.plain("Dropout")}});
        List<Child> layers{numbered(0, 1, add_layer(tree, config, part.plain("Identity")), ModuleRole::layer)};
        if (config.layers > 1)
            layers.push_back(numbered(1, config.layers - 1, add_layer(tree, config, norm), ModuleRole::layer));
        tree.keep_whole("ModernBertEmbeddings");
        tree.keep_whole("ModernBertEncoderLayer");
        auto const model = tree.add("ModernBertModel", {},
                                    {{"embeddings", embeddings, ModuleRole::embedding},
                                     {"layers", tree.add("ModuleList", layers)},
                                     {"final_norm", norm, ModuleRole::norm}});
        tree.set_root(model);
        if (detail::is_base_class(config)) return tree;
        auto const head = tree.add("ModernBertPredictionHead", {},
                                   {{"dense", part.linear(hidden, hidden, config.own["classifier_bias"] != 0)},
                                    {"act", part.plain(activation_class(ActivationKind::gelu))},
                                    {"norm", norm}});
        if (config.labels > 0) {
            auto const scores = part.linear(config.labels, hidden, true, {}, TensorUse::head);
            List<Child> const children{{"model", model},
                                       {"head", head, ModuleRole::head},
                                       {"drop", part.plain("Dropout")},
                                       {"classifier", scores, ModuleRole::head}};
            tree.set_root(tree.add(tree.names().join(config.model_class.view()), children));
            return tree;
        }
        auto const decoder = part.linear(config.vocab_size, hidden, config.own["decoder_bias"] != 0,
                                         ShardRule::units(0, config.vocab_size), TensorUse::head);
        tree.set_root(
            tree.add("ModernBertForMaskedLM", {},
                     {{"model", model}, {"head", head, ModuleRole::head}, {"decoder", decoder, ModuleRole::head}}));
        if (config.tie_word_embeddings) tree.tie("model.embeddings.tok_embeddings.weight", "decoder.weight");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, "model");
        model.ids_block("embeddings", [](BlockBuilder& body) {
            (void)body.layer_norm(body.embedding(body.input(), "tok_embeddings"), "norm");
        });
        auto const slides = [&](std::int64_t layer) { return config.local_layers.contains(layer); };
        model.layers("layers", slides,
                     [&](BlockBuilder& body, bool is_sliding) { write_layer(body, config, is_sliding); });
        model.norm("final_norm", NormKind::layer);
        bool const is_of_text = detail::is_for(config, "ForSequenceClassification");
        model.head_block("head", [&](BlockBuilder& body) {
            auto in = body.input();
            if (is_of_text) in = config.own["classifier_pooling"] == 0 ? body.first_token(in) : body.mean_token(in);
            auto const dense = body.linear(in, "transformed", "dense");
            (void)body.layer_norm(body.activation(dense, ActivationKind::gelu), "norm");
        });
        model.head_block(
            "classifier", [](BlockBuilder& body) { (void)body.linear(body.input(), "scores", {}); },
            is_of_text ? Rows::sequences : Rows::tokens);
        model.head_block("decoder", [](BlockBuilder& body) { (void)body.logits(body.input(), {}); });
        return std::move(model).finish();
    }

private:
    static constexpr ModuleId add_norm(detail::PartMaker& part, ModelConfig const& config) {
        return part.norm("LayerNorm", config.hidden_size, config.own["norm_bias"] != 0);
    }
    static constexpr ModuleId add_layer(ModuleTree& tree, ModelConfig const& config, ModuleId attention_norm) {
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const width = config.intermediate_size;
        auto const qkv = part.linear(3 * hidden, hidden, config.attention_bias,
                                     ShardRule::qkv(0, config.heads, config.heads), TensorUse::attention_qkv);
        auto const out = part.linear(hidden, hidden, config.attention_out_bias, ShardRule::units(1, config.heads),
                                     TensorUse::attention_output);
        auto const rotary = part.rotary("ModernBertRotaryEmbedding", config.head_dim);
        auto const attention =
            tree.add("ModernBertAttention", {},
                     {{"Wqkv", qkv}, {"rotary_emb", rotary}, {"Wo", out}, {"out_drop", part.plain("Identity")}});
        auto const both =
            part.linear(2 * width, hidden, config.mlp_bias, ShardRule::packed(0, 2, width), TensorUse::ffn_up);
        auto const down = part.linear(hidden, width, config.mlp_bias, ShardRule::units(1, width), TensorUse::ffn_down);
        auto const mlp = tree.add("ModernBertMLP", {},
                                  {{"Wi", both},
                                   {"act", part.plain(activation_class(config.activation))},
                                   {"drop", part.plain("Dropout")},
                                   {"Wo", down}});
        return tree.add(
            "ModernBertEncoderLayer", {},
            {{"attn_norm", attention_norm}, {"attn", attention}, {"mlp_norm", add_norm(part, config)}, {"mlp", mlp}});
    }

    /// The first layer reads the embeddings, which are normed: its norm is none.
    static constexpr void write_layer(BlockBuilder& body, ModelConfig const& config, bool is_sliding) {
        auto shape = detail::plain_attention(config, false);
        // A token sees so many on each side.
        if (is_sliding) shape.window = config.sliding_window / 2 + 1;
        bool const has_norm = body.has_weight("attn_norm");
        auto const normed = has_norm ? body.layer_norm(body.input(), "attn_norm") : body.input();
        auto const qkv = body.rope(body.linear(normed, "qkv", "attn.Wqkv"), shape);
        auto const context = body.attention(qkv, qkv, qkv, shape);
        auto const middle = body.add(body.input(), body.linear(context, "attention_out", "attn.Wo"));
        auto const both = body.linear(body.layer_norm(middle, "mlp_norm"), "gate_up", "mlp.Wi");
        (void)body.add(middle, body.linear(body.gated_halves(both, config.activation), "mlp_out", "mlp.Wo"));
    }
};

static_assert(ModelArchitecture<ModernBert>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
