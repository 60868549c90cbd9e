// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/bert_layout.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// RoBERTa: bert's encoder with positions that begin behind the padding id, and a head of its own.
///
/// Source  transformers 4.57 models/roberta/modeling_roberta.py
struct Roberta {
    static constexpr std::string_view name = "roberta";
    static constexpr std::string_view gguf_name = "bert";
    /// Files lack the pooler where their task does not use it (llama.cpp's, embedding models).
    static constexpr std::string_view optional_prefix = "pooler.";
    static constexpr std::array unread_keys{UnreadKey{"is_decoder", "false"}};
    static constexpr std::string_view gguf_class = "RobertaModel";
    /// llama.cpp writes both as "bert"; only roberta's tokenizer has merges.
    static constexpr std::string_view gguf_marker = "tokenizer.ggml.merges";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 50265).in_gguf("vocab_size"),
        positive_field("hidden_size", &ModelConfig::hidden_size, 768).in_gguf("embedding_length"),
        positive_field("intermediate_size", &ModelConfig::intermediate_size, 3072).in_gguf("feed_forward_length"),
        positive_field("num_hidden_layers", &ModelConfig::layers, 12).in_gguf("block_count"),
        positive_field("num_attention_heads", &ModelConfig::heads, 12).in_gguf("attention.head_count"),
        positive_field("max_position_embeddings", &ModelConfig::max_positions, 512).in_gguf("context_length"),
        positive_field("type_vocab_size", &ModelConfig::type_vocab_size, 2),
        natural_field("pad_token_id", &ModelConfig::padding_id, 1),
        choice_field("position_embedding_type", &ModelConfig::position_kind, detail::position_kinds),
        flag_field("tie_word_embeddings", &ModelConfig::tie_word_embeddings, true),
        real_field("layer_norm_eps", &ModelConfig::norm_epsilon, 1e-12).in_gguf("attention.layer_norm_epsilon"),
        activation_field("hidden_act", ActivationKind::gelu),
        refused_flag("add_cross_attention", "adds layers of cross-attention, which are not described"),
    };

    static constexpr std::array aliases{
        NameAlias{"token_embd.weight", "roberta.embeddings.word_embeddings.weight"},
        NameAlias{"position_embd.weight", "roberta.embeddings.position_embeddings.weight"},
        NameAlias{"token_types.weight", "roberta.embeddings.token_type_embeddings.weight"},
        NameAlias{"token_embd_norm.weight", "roberta.embeddings.LayerNorm.weight"},
        NameAlias{"token_embd_norm.bias", "roberta.embeddings.LayerNorm.bias"},
        NameAlias{"blk.{}.attn_q.weight", "roberta.encoder.layer.{}.attention.self.query.weight"},
        NameAlias{"blk.{}.attn_q.bias", "roberta.encoder.layer.{}.attention.self.query.bias"},
        NameAlias{"blk.{}.attn_k.weight", "roberta.encoder.layer.{}.attention.self.key.weight"},
        NameAlias{"blk.{}.attn_k.bias", "roberta.encoder.layer.{}.attention.self.key.bias"},
        NameAlias{"blk.{}.attn_v.weight", "roberta.encoder.layer.{}.attention.self.value.weight"},
        NameAlias{"blk.{}.attn_v.bias", "roberta.encoder.layer.{}.attention.self.value.bias"},
        NameAlias{"blk.{}.attn_output.weight", "roberta.encoder.layer.{}.attention.output.dense.weight"},
        NameAlias{"blk.{}.attn_output.bias", "roberta.encoder.layer.{}.attention.output.dense.bias"},
        NameAlias{"blk.{}.attn_output_norm.weight", "roberta.encoder.layer.{}.attention.output.LayerNorm.weight"},
        NameAlias{"blk.{}.attn_output_norm.bias", "roberta.encoder.layer.{}.attention.output.LayerNorm.bias"},
        NameAlias{"blk.{}.ffn_up.weight", "roberta.encoder.layer.{}.intermediate.dense.weight"},
        NameAlias{"blk.{}.ffn_up.bias", "roberta.encoder.layer.{}.intermediate.dense.bias"},
        NameAlias{"blk.{}.ffn_down.weight", "roberta.encoder.layer.{}.output.dense.weight"},
        NameAlias{"blk.{}.ffn_down.bias", "roberta.encoder.layer.{}.output.dense.bias"},
        NameAlias{"blk.{}.layer_output_norm.weight", "roberta.encoder.layer.{}.output.LayerNorm.weight"},
        NameAlias{"blk.{}.layer_output_norm.bias", "roberta.encoder.layer.{}.output.LayerNorm.bias"},
    };

    static constexpr detail::BertLayout layout{.prefix = "Roberta", .has_padding_row = true};

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(
                config, {"RobertaForMaskedLM", "RobertaModel", "RobertaForSequenceClassification",
                         "RobertaForTokenClassification", "RobertaForQuestionAnswering", "RobertaForMultipleChoice"});
            !known)
            return known;
        return detail::complete_bert(config);
    }

    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        auto const model = detail::add_bert_model(tree, config, layout, has_pooler(config));
        tree.set_root(model);
        if (!detail::is_base_class(config)) {
            tree.keep_whole("RobertaSelfAttention");
            tree.keep_whole("RobertaSdpaSelfAttention");
        }
        if (config.labels > 0) detail::add_classifier(tree, config, "roberta", model, true);
        if (!has_head(config)) return tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const head =
            tree.add("RobertaLMHead", {part.tensors().bias(config.vocab_size, ShardRule::units(0, config.vocab_size))},
                     {{"dense", part.linear(config.hidden_size, config.hidden_size, true)},
                      {"layer_norm", detail::add_layer_norm(part, config.hidden_size)},
                      {"decoder", detail::add_masked_decoder(part, config)}});
        tree.set_root(tree.add("RobertaForMaskedLM", {}, {{"roberta", model}, {"lm_head", head, ModuleRole::head}}));
        if (config.tie_word_embeddings) tree.tie("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight");
        tree.tie("lm_head.bias", "lm_head.decoder.bias");
        return tree;
    }

    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree, "roberta");
        detail::append_bert_model(model, config, layout);
        detail::append_classifier(model, config);
        detail::append_masked_head(model, "lm_head", "dense", "layer_norm", ActivationKind::gelu);
        return std::move(model).finish();
    }

private:
    static constexpr bool has_pooler(ModelConfig const& config) {
        return detail::is_base_class(config) || detail::is_for(config, "ForMultipleChoice");
    }
    static constexpr bool has_head(ModelConfig const& config) {
        return config.model_class.view() == "RobertaForMaskedLM";
    }
};

static_assert(ModelArchitecture<Roberta>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
