// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/roberta_layout.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// XLM-RoBERTa: roberta over the vocabulary of a hundred languages.
///
/// Source  transformers 4.57 models/xlm_roberta/modeling_xlm_roberta.py
struct XlmRoberta {
    static constexpr std::string_view name = "xlm-roberta";
    static constexpr std::string_view gguf_name = "bert";
    /// Files lack the pooler where their task does not use it (llama.cpp's, embedding models).
    static constexpr std::string_view optional_prefix = "pooler.";
    static constexpr std::array unread_keys{UnreadKey{"is_decoder", "false"}};
    static constexpr std::string_view gguf_class = "XLMRobertaModel";
    /// llama.cpp writes it as "bert", too; only its tokenizer has scores.
    static constexpr std::string_view gguf_marker = "tokenizer.ggml.scores";

    static constexpr std::array fields{
        positive_field("vocab_size", &ModelConfig::vocab_size, 30522).in_gguf("vocab_size"),
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

    static constexpr auto aliases = detail::gguf_roberta;

    static constexpr detail::BertLayout layout{.prefix = "XLMRoberta", .has_padding_row = true};

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(
                config, {"XLMRobertaForMaskedLM", "XLMRobertaModel", "XLMRobertaForSequenceClassification",
                         "XLMRobertaForTokenClassification", "XLMRobertaForQuestionAnswering", "XLMRobertaForMultipleChoice"});
            !known)
            return known;
        return detail::complete_bert(config);
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::roberta_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::roberta_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<XlmRoberta>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
