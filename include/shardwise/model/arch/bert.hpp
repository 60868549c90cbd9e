// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/bert_layout.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// BERT: the encoder with its pooler (BertModel), or with the head of its masked language model.
///
/// Source  transformers 4.57 models/bert/modeling_bert.py
struct Bert {
    static constexpr std::string_view name = "bert";
    static constexpr std::string_view gguf_name = "bert";
    static constexpr std::string_view base_name = "bert";
    /// Files lack the pooler where their task does not use it (llama.cpp's, embedding models).
    static constexpr std::string_view optional_prefix = "pooler.";
    static constexpr std::array unread_keys{UnreadKey{"is_decoder", "false"}};
    /// GGUF stores the encoder without a head.
    static constexpr std::string_view gguf_class = "BertModel";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 30522).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 768).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 3072).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 12).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 12).in_gguf("attention.head_count"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 512).in_gguf("context_length"),
        positive_field("type_vocab_size", 2),
        choice_field("position_embedding_type", detail::position_kinds),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        real_field("layer_norm_eps", &ModelConfig::norm_epsilon, 1e-12).in_gguf("attention.layer_norm_epsilon"),
        activation_field("hidden_act", ActivationKind::gelu),
        refused_flag("add_cross_attention", "adds layers of cross-attention, which are not described"),
    };

    /// GGUF's names, and gamma and beta as the first files called the weights and biases of norms.
    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "bert.embeddings.word_embeddings.weight"},
        NameAlias{"position_embd.weight", "bert.embeddings.position_embeddings.weight"},
        NameAlias{"token_types.weight", "bert.embeddings.token_type_embeddings.weight"},
        NameAlias{"token_embd_norm.weight", "bert.embeddings.LayerNorm.weight"},
        NameAlias{"token_embd_norm.bias", "bert.embeddings.LayerNorm.bias"},
        NameAlias{"blk.{}.attn_q.weight", "bert.encoder.layer.{}.attention.self.query.weight"},
        NameAlias{"blk.{}.attn_q.bias", "bert.encoder.layer.{}.attention.self.query.bias"},
        NameAlias{"blk.{}.attn_k.weight", "bert.encoder.layer.{}.attention.self.key.weight"},
        NameAlias{"blk.{}.attn_k.bias", "bert.encoder.layer.{}.attention.self.key.bias"},
        NameAlias{"blk.{}.attn_v.weight", "bert.encoder.layer.{}.attention.self.value.weight"},
        NameAlias{"blk.{}.attn_v.bias", "bert.encoder.layer.{}.attention.self.value.bias"},
        NameAlias{"blk.{}.attn_output.weight", "bert.encoder.layer.{}.attention.output.dense.weight"},
        NameAlias{"blk.{}.attn_output.bias", "bert.encoder.layer.{}.attention.output.dense.bias"},
        NameAlias{"blk.{}.attn_output_norm.weight", "bert.encoder.layer.{}.attention.output.LayerNorm.weight"},
        NameAlias{"blk.{}.attn_output_norm.bias", "bert.encoder.layer.{}.attention.output.LayerNorm.bias"},
        NameAlias{"blk.{}.ffn_up.weight", "bert.encoder.layer.{}.intermediate.dense.weight"},
        NameAlias{"blk.{}.ffn_up.bias", "bert.encoder.layer.{}.intermediate.dense.bias"},
        NameAlias{"blk.{}.ffn_down.weight", "bert.encoder.layer.{}.output.dense.weight"},
        NameAlias{"blk.{}.ffn_down.bias", "bert.encoder.layer.{}.output.dense.bias"},
        NameAlias{"blk.{}.layer_output_norm.weight", "bert.encoder.layer.{}.output.LayerNorm.weight"},
        NameAlias{"blk.{}.layer_output_norm.bias", "bert.encoder.layer.{}.output.LayerNorm.bias"},
        NameAlias{"bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"},
        NameAlias{"bert.embeddings.LayerNorm.beta", "bert.embeddings.LayerNorm.bias"},
        NameAlias{"bert.encoder.layer.{}.attention.output.LayerNorm.gamma",
                  "bert.encoder.layer.{}.attention.output.LayerNorm.weight"},
        NameAlias{"bert.encoder.layer.{}.attention.output.LayerNorm.beta",
                  "bert.encoder.layer.{}.attention.output.LayerNorm.bias"},
        NameAlias{"bert.encoder.layer.{}.output.LayerNorm.gamma", "bert.encoder.layer.{}.output.LayerNorm.weight"},
        NameAlias{"bert.encoder.layer.{}.output.LayerNorm.beta", "bert.encoder.layer.{}.output.LayerNorm.bias"},
        NameAlias{"cls.predictions.transform.LayerNorm.gamma", "cls.predictions.transform.LayerNorm.weight"},
        NameAlias{"cls.predictions.transform.LayerNorm.beta", "cls.predictions.transform.LayerNorm.bias"},
    };

    static constexpr detail::BertLayout layout{.prefix = "Bert"};

    static void infer_from_gguf(GgufTensorNames const& names, ModelConfig& config) {
        detail::infer_token_types(names, config);
    }

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "Bert", detail::masked_classes); !known) return known;
        return detail::complete_bert(config);
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        auto const model = detail::add_bert_model(tree, config, layout, has_pooler(config));
        tree.set_root(model);
        if (config.labels > 0) detail::add_classifier(tree, config, "bert", model);
        if (!has_head(config)) return tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const transform = tree.add("BertPredictionHeadTransform", {},
                                        {{"dense", part.linear(config.hidden_size, config.hidden_size, true)},
                                         {"transform_act_fn", part.plain(activation_class(config.activation))},
                                         {"LayerNorm", detail::add_layer_norm(part, config.hidden_size)}});
        auto const predictions = tree.add(
            "BertLMPredictionHead", {part.tensors().bias(config.vocab_size, ShardRule::units(0, config.vocab_size))},
            {{"transform", transform}, {"decoder", detail::add_masked_decoder(part, config)}});
        auto const head = tree.add("BertOnlyMLMHead", {}, {{"predictions", predictions}});
        tree.set_root(tree.add("BertForMaskedLM", {}, {{"bert", model}, {"cls", head, ModuleRole::head}}));
        if (config.tie_word_embeddings)
            tree.tie("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight");
        tree.tie("cls.predictions.bias", "cls.predictions.decoder.bias");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, base_name);
        detail::append_encoder(model, config, layout);
        detail::append_classifier(model, config);
        detail::append_masked_head(model, "cls.predictions", "transform.dense", "transform.LayerNorm",
                                   config.activation);
        return std::move(model).finish();
    }

private:
    static constexpr bool has_pooler(ModelConfig const& config) {
        return detail::is_base_class(config) || detail::is_for(config, "ForMultipleChoice") ||
               detail::is_for(config, "ForSequenceClassification");
    }
    static constexpr bool has_head(ModelConfig const& config) { return config.model_class.view() == "BertForMaskedLM"; }
};

static_assert(ModelArchitecture<Bert>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
