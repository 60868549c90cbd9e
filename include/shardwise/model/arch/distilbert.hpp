// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/bert_layout.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// DistilBERT: bert's encoder without token types and pooler, under names of its own.
///
/// Source  transformers 4.57 models/distilbert/modeling_distilbert.py
struct DistilBert {
    static constexpr std::string_view name = "distilbert";
    static constexpr std::string_view gguf_name = "bert";
    static constexpr std::string_view base_name = "distilbert";
    static constexpr std::string_view gguf_class = "DistilBertModel";
    /// llama.cpp writes it as "bert", too; only it has no token types.
    static constexpr std::string_view gguf_marker = "!token_types.weight";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 30522).in_gguf("vocab_size"),
        positive_field("dim", &ModelConfig::hidden_size, 768).named("hidden_size").in_gguf("embedding_length"),
        positive_field("hidden_dim", &ModelConfig::intermediate_size, 3072).in_gguf("feed_forward_length"),
        positive_field("n_layers", &ModelConfig::layers, 6).named("num_hidden_layers").in_gguf("block_count"),
        positive_field("n_heads", &ModelConfig::heads, 12).named("num_attention_heads").in_gguf("attention.head_count"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 512).in_gguf("context_length"),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        activation_field("activation", ActivationKind::gelu),
    };

    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "distilbert.embeddings.word_embeddings.weight"},
        NameAlias{"position_embd.weight", "distilbert.embeddings.position_embeddings.weight"},
        NameAlias{"token_embd_norm.weight", "distilbert.embeddings.LayerNorm.weight"},
        NameAlias{"token_embd_norm.bias", "distilbert.embeddings.LayerNorm.bias"},
        NameAlias{"blk.{}.attn_q.weight", "distilbert.transformer.layer.{}.attention.q_lin.weight"},
        NameAlias{"blk.{}.attn_q.bias", "distilbert.transformer.layer.{}.attention.q_lin.bias"},
        NameAlias{"blk.{}.attn_k.weight", "distilbert.transformer.layer.{}.attention.k_lin.weight"},
        NameAlias{"blk.{}.attn_k.bias", "distilbert.transformer.layer.{}.attention.k_lin.bias"},
        NameAlias{"blk.{}.attn_v.weight", "distilbert.transformer.layer.{}.attention.v_lin.weight"},
        NameAlias{"blk.{}.attn_v.bias", "distilbert.transformer.layer.{}.attention.v_lin.bias"},
        NameAlias{"blk.{}.attn_output.weight", "distilbert.transformer.layer.{}.attention.out_lin.weight"},
        NameAlias{"blk.{}.attn_output.bias", "distilbert.transformer.layer.{}.attention.out_lin.bias"},
        NameAlias{"blk.{}.attn_output_norm.weight", "distilbert.transformer.layer.{}.sa_layer_norm.weight"},
        NameAlias{"blk.{}.attn_output_norm.bias", "distilbert.transformer.layer.{}.sa_layer_norm.bias"},
        NameAlias{"blk.{}.ffn_up.weight", "distilbert.transformer.layer.{}.ffn.lin1.weight"},
        NameAlias{"blk.{}.ffn_up.bias", "distilbert.transformer.layer.{}.ffn.lin1.bias"},
        NameAlias{"blk.{}.ffn_down.weight", "distilbert.transformer.layer.{}.ffn.lin2.weight"},
        NameAlias{"blk.{}.ffn_down.bias", "distilbert.transformer.layer.{}.ffn.lin2.bias"},
        NameAlias{"blk.{}.layer_output_norm.weight", "distilbert.transformer.layer.{}.output_layer_norm.weight"},
        NameAlias{"blk.{}.layer_output_norm.bias", "distilbert.transformer.layer.{}.output_layer_norm.bias"},
    };

    static constexpr detail::EncoderNames names{.query = "attention.q_lin",
                                                .key = "attention.k_lin",
                                                .value = "attention.v_lin",
                                                .out = "attention.out_lin",
                                                .middle_norm = "sa_layer_norm",
                                                .up = "ffn.lin1",
                                                .down = "ffn.lin2",
                                                .last_norm = "output_layer_norm"};

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "DistilBert", detail::masked_classes); !known) return known;
        config.norm_epsilon = 1e-12;
        constexpr detail::ConfigKeys keys{.hidden_size = "dim",
                                          .layers = "n_layers",
                                          .heads = "n_heads",
                                          .kv_heads = "n_heads",
                                          .intermediate_size = "hidden_dim"};
        return detail::complete_encoder(config, keys);
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const dropout = part.plain("Dropout");
        auto const model = add_model(tree, config);
        tree.set_root(model);
        if (detail::is_base_class(config)) return tree;
        auto const dense = part.linear(hidden, hidden, true);
        List<Child> children{{"distilbert", model}};
        if (config.labels > 0) {
            auto const scores = part.linear(config.labels, hidden, true, {}, TensorUse::head);
            bool const is_of_text = is_for_text(config);
            bool const is_question = detail::is_for(config, "ForQuestionAnswering");
            if (is_of_text) children.push_back({"pre_classifier", dense, ModuleRole::head});
            if (!is_of_text && !is_question) children.push_back({"dropout", dropout});
            children.push_back({is_question ? "qa_outputs" : "classifier", scores, ModuleRole::head});
            if (is_of_text || is_question) children.push_back({"dropout", dropout});
            tree.set_root(tree.add(tree.names().join(config.model_class.view()), children));
            return tree;
        }
        tree.set_root(tree.add("DistilBertForMaskedLM", {},
                               {{"activation", part.plain(activation_class(config.activation))},
                                {"distilbert", model},
                                {"vocab_transform", dense, ModuleRole::head},
                                {"vocab_layer_norm", detail::add_layer_norm(part, hidden), ModuleRole::head},
                                {"vocab_projector", detail::add_masked_decoder(part, config), ModuleRole::head},
                                {"mlm_loss_fct", part.plain("CrossEntropyLoss")}}));
        if (config.tie_word_embeddings)
            tree.tie("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, base_name);
        detail::append_encoder(model, config, {}, names, "transformer.layer");
        if (detail::is_base_class(config)) return std::move(model).finish();
        if (config.labels > 0 && !is_for_text(config)) {
            detail::append_classifier(model, config);
            return std::move(model).finish();
        }
        model.head_block("pre_classifier", [&](BlockBuilder& body) {
            auto const dense = body.linear(body.first_token(body.input()), "transformed", {});
            (void)body.activation(dense, ActivationKind::relu);
        });
        // Its rows are those of the texts.
        model.head_block(
            "classifier", [&](BlockBuilder& body) { (void)body.linear(body.input(), "scores", {}); }, Rows::sequences);
        model.head_block("vocab_transform", [&](BlockBuilder& body) {
            (void)body.activation(body.linear(body.input(), "transformed", {}), config.activation);
        });
        model.head_block("vocab_layer_norm", [](BlockBuilder& body) { (void)body.layer_norm(body.input(), {}); });
        model.head_block("vocab_projector", [](BlockBuilder& body) { (void)body.logits(body.input(), {}); });
        return std::move(model).finish();
    }

private:
    static constexpr bool is_for_text(ModelConfig const& config) {
        return detail::is_for(config, "ForSequenceClassification") || detail::is_for(config, "ForMultipleChoice");
    }

    static constexpr ModuleId add_model(ModuleTree& tree, ModelConfig const& config) {
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const width = config.intermediate_size;
        auto const norm = detail::add_layer_norm(part, hidden);
        auto const dropout = part.plain("Dropout");
        auto const in = [&](TensorUse use) {
            return part.linear(hidden, hidden, true, ShardRule::units(0, config.heads), use);
        };
        auto const out =
            part.linear(hidden, hidden, true, ShardRule::units(1, config.heads), TensorUse::attention_output);
        auto const attention = tree.add("DistilBertSdpaAttention", {},
                                        {{"dropout", dropout},
                                         {"q_lin", in(TensorUse::attention_q)},
                                         {"k_lin", in(TensorUse::attention_k)},
                                         {"v_lin", in(TensorUse::attention_v)},
                                         {"out_lin", out}});
        auto const ffn =
            tree.add("FFN", {},
                     {{"dropout", dropout},
                      {"lin1", part.linear(width, hidden, true, ShardRule::units(0, width), TensorUse::ffn_up)},
                      {"lin2", part.linear(hidden, width, true, ShardRule::units(1, width), TensorUse::ffn_down)},
                      {"activation", part.plain(activation_class(config.activation))}});
        auto const layer =
            tree.add("TransformerBlock", {},
                     {{"attention", attention}, {"sa_layer_norm", norm}, {"ffn", ffn}, {"output_layer_norm", norm}});
        auto const list = tree.add("ModuleList", {}, {numbered(0, config.layers, layer, ModuleRole::layer)});
        auto const embeddings = tree.add("Embeddings", {detail::position_indices(config)},
                                         {{"word_embeddings", part.vocabulary(config.vocab_size, hidden)},
                                          {"position_embeddings", part.table(config.max_positions, hidden)},
                                          {"LayerNorm", norm},
                                          {"dropout", dropout}});
        return tree.add("DistilBertModel", {},
                        {{"embeddings", embeddings, ModuleRole::embedding},
                         {"transformer", tree.add("Transformer", {}, {{"layer", list}})}});
    }
};

static_assert(ModelArchitecture<DistilBert>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
