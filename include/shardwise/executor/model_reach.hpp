// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/memory/activations.hpp>
#include <shardwise/model/architecture.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Tokens that a sequence of a model can have: its positions, and the rows that its tables of positions hold. Nothing:
/// no limit.
[[nodiscard]] inline std::optional<std::int64_t> longest_context(Model const& model) {
    std::optional<std::int64_t> most;
    if (model.config.max_positions > 0) most = model.config.max_positions;
    for (auto const& body : model.program.bodies()) {
        for (auto const& op : body.operations()) {
            if (op.kind != OpKind::embedding || op.table().index != TableIndex::position) continue;
            auto const rows = op.in_features - op.table().first_row;
            most = most ? std::min(*most, rows) : rows;
        }
    }
    return most;
}

/// False for a model with labels that are scored in another way than by tokens, by texts, or by where an answer begins and ends.
[[nodiscard]] inline bool scores_labels(Model const& model) {
    auto const name = model.config.model_class.view();
    auto const labels = model.config.labels;
    if (labels == 0 || name.ends_with("ForTokenClassification") || name.ends_with("ForSequenceClassification"))
        return true;
    if (!is_bidirectional(model)) return false;
    return name.ends_with("ForMultipleChoice") || (name.ends_with("ForQuestionAnswering") && labels == 2);
}

/// Checks how much a rank is to be made for.
///
/// Errors  invalid_argument for limits below 1 or beyond the model's positions; size_overflow
[[nodiscard]] inline Result<> check_limits(ExecutorLimits const& limits, Model const& model) {
    Error refused{ErrorCode::invalid_argument};
    refused.in("executor");
    if (limits.sequences < 1 || limits.context < 1 || limits.step_tokens < 1 || limits.cache_tokens < 0)
        return refused.because("needs room for a sequence, a context and a step").got(limits.context).at_least(1);
    if (auto const most = longest_context(model); most && limits.context > *most) {
        return refused.at("context")
            .because("is longer than the model's positions")
            .got(limits.context)
            .at_most(*most)
            .fix("ask for a shorter context");
    }
    if (!checked_multiply(limits.sequences, limits.context))
        return Error{ErrorCode::size_overflow}.in("executor").at("context").got(limits.context);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
