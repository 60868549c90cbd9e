// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/held_block.hpp>
#include <shardwise/executor/kv_cache.hpp>
#include <shardwise/executor/step_capacity.hpp>
#include <shardwise/kernels/step_table.hpp>
#include <shardwise/model/architecture.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which rows of a step a model looks at apart, and which ids take no position.
struct StepRule {
    /// -1: none.
    std::int64_t skipped_id = -1;
    /// The first row of each sequence is pooled, not the last one.
    bool takes_first = false;
};

/// The rule of the blocks that an executor with these limits computes.
[[nodiscard]] inline StepRule step_rule_of(Model const& model, ExecutorLimits const& limits) {
    StepRule rule;
    for (auto const& block : model.program.blocks()) {
        if (block.role == ModuleRole::head && !limits.has_head) break;
        for (auto const& op : model.program.body(block).operations()) {
            if (op.kind == OpKind::embedding) rule.skipped_id = std::max(rule.skipped_id, op.table().skipped_id);
            if (op.kind == OpKind::last_token) rule.takes_first = op.taken_row() == TakenRow::first;
        }
    }
    return rule;
}

/// The table that a rank's kernels read a step from, and what it is written from.
template <ComputeBackend Backend>
class RankStep {
public:
    RankStep() = default;

    /// Errors  as StepTable::create
    [[nodiscard]] static Result<RankStep> create(typename Backend::Context& context, ExecutorLimits const& limits,
                                                 std::int64_t groups, StepRule rule) {
        auto table = StepTable<Backend>::create(context, step_bounds(limits, groups));
        if (!table) return table.error();
        RankStep step;
        step.table_.emplace(std::move(*table));
        step.groups_ = static_cast<std::size_t>(groups);
        step.rule_ = rule;
        return Result<RankStep>(std::move(step));
    }

    /// Writes new tokens of sequences that have their pages; of `rows` where there are some, those beyond the sequences' are inert.
    /// `sources`: by slot, tokens of the sources that are read; empty where none is.
    ///
    /// Order   on `stream`
    /// Errors  as StepTable::write
    [[nodiscard]] Result<> write(std::span<std::int32_t const> ids, std::span<SequencePart const> parts,
                                 KvCache<Backend> const& cache, typename Backend::Stream& stream, std::int64_t rows,
                                 std::span<std::int64_t const> sources) {
        sequences_.clear();
        wanted_.clear();
        lists_.resize(parts.size() * groups_);
        std::int64_t first = 0;
        std::size_t at = 0;
        for (auto const& part : parts) {
            auto const lists = std::span(lists_).subspan(at, groups_);
            cache.lists(part.slot, lists);
            auto const source = sources.empty() ? 0 : sources[static_cast<std::size_t>(part.slot)];
            sequences_.push_back({part.past, part.tokens, lists, part.slot, source});
            wanted_.push_back(static_cast<std::int32_t>(rule_.takes_first ? first : first + part.tokens - 1));
            first += part.tokens;
            at += groups_;
        }
        return table_->write({ids, sequences_, wanted_, static_cast<std::int32_t>(rule_.skipped_id)}, stream, rows);
    }

    [[nodiscard]] StepTable<Backend> const& table() const { return *table_; }
    [[nodiscard]] Bytes bytes() const { return table_ ? table_->bytes() : Bytes{0}; }

private:
    std::optional<StepTable<Backend>> table_;
    std::size_t groups_ = 0;
    StepRule rule_;
    // Of the step that is written; kept so that a step allocates nothing.
    std::vector<StepSequence> sequences_;
    std::vector<std::span<std::int32_t const>> lists_;
    std::vector<std::int32_t> wanted_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
