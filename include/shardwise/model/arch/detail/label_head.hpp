// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/arch/detail/model_class.hpp>
#include <shardwise/model/arch/detail/parts.hpp>
#include <shardwise/model/program_builder.hpp>

#include <cstdint>
#include <string_view>

/// The linear layer by which decoders score texts or tokens.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Makes the class that is counted out of the model without a head, which it calls `base`, and a linear layer over states of `width`:
/// `score` without a bias where it scores texts, `of_tokens` with one where it scores tokens.
///
/// Source  transformers 4.57 modeling_layers.py; gpt2's, bloom's, falcon's and gpt_neox' classes name the latter `classifier`
constexpr void add_label_head(ModuleTree& tree, ModelConfig const& config, std::string_view base, ModuleId model,
                              std::int64_t width, std::string_view of_tokens = "score") {
    PartMaker part(tree, config.dtype_or(Dtype::f32));
    bool const scores_tokens = is_for(config, "ForTokenClassification");
    auto const score = part.linear(config.labels, width, scores_tokens, {}, TensorUse::head);
    List<Child> children{{base, model}};
    if (scores_tokens) children.push_back({"dropout", part.plain("Dropout")});
    children.push_back({scores_tokens ? of_tokens : "score", score, ModuleRole::head});
    tree.set_root(tree.add(tree.names().join(config.model_class.view()), children));
}

/// The head's block, where the tree has it: of a text the last token's scores count.
constexpr void append_label_head(ProgramBuilder& model, ModelConfig const& config,
                                 std::string_view of_tokens = "score") {
    bool const scores_tokens = is_for(config, "ForTokenClassification");
    model.head_block(scores_tokens ? of_tokens : "score", [&](BlockBuilder& body) {
        (void)body.linear(scores_tokens ? body.input() : body.last_token(body.input()), "scores", {});
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
