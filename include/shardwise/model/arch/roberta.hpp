// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/arch/detail/roberta_layout.hpp>
#include <shardwise/model/architecture.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// RoBERTa: bert's encoder with positions that begin after the padding id, and a head of its own.
///
/// Source  transformers 4.57 models/roberta/modeling_roberta.py
struct Roberta {
    static constexpr std::string_view name = "roberta";
    static constexpr std::string_view gguf_name = "bert";
    static constexpr std::string_view base_name = detail::roberta_base;
    /// Files lack the pooler where their task does not use it (llama.cpp's, embedding models).
    static constexpr std::string_view optional_prefix = "pooler.";
    static constexpr std::array unread_keys{UnreadKey{"is_decoder", "false"}};
    static constexpr std::string_view gguf_class = "RobertaModel";
    /// llama.cpp writes both as "bert"; only roberta's tokenizer has merges.
    static constexpr std::string_view gguf_marker = "tokenizer.ggml.merges";

    static constexpr auto fields = detail::roberta_fields(50265);

    static constexpr auto aliases = detail::gguf_roberta;
    static constexpr auto gguf_defaults = detail::gguf_roberta_defaults;

    static constexpr detail::BertLayout layout{.prefix = "Roberta", .has_padding_row = true};

    static void infer_from_gguf(GgufTensorNames const& names, ModelConfig& config) {
        detail::infer_token_types(names, config);
    }

    static constexpr Result<> complete(ModelConfig& config) {
        if (auto const known = detail::check_class(config, "Roberta", detail::masked_classes); !known) return known;
        return detail::complete_bert(config);
    }

    static constexpr ModuleTree tree(auto const& config) { return detail::roberta_tree(config, layout); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return detail::roberta_program(config, layout, tree);
    }
};

static_assert(ModelArchitecture<Roberta>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
