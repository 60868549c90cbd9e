#pragma once

#include <shardwise/model/architecture.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace shardwise::inline v0_2_0 {

/// Tokens that a sequence of a model can have: its positions, and the rows that its tables of positions hold. Nothing:
/// no limit.
[[nodiscard]] inline std::optional<std::int64_t> longest_context(Model const& model) {
    std::optional<std::int64_t> most;
    if (model.config.max_positions > 0) most = model.config.max_positions;
    for (auto const& body : model.program.bodies()) {
        for (auto const& op : body.operations()) {
            if (op.kind != OpKind::embedding || op.index != TableIndex::position) continue;
            auto const rows = op.in_features - op.first_row;
            most = most ? std::min(*most, rows) : rows;
        }
    }
    return most;
}

/// True where tokens see what comes behind them: each sequence is computed in one step, and nothing is cached.
[[nodiscard]] inline bool is_bidirectional(Model const& model) {
    for (auto const& body : model.program.bodies()) {
        for (auto const& op : body.operations()) {
            if (op.kind == OpKind::attention && !op.attention.is_causal && !op.attention.is_cross) return true;
        }
    }
    return false;
}

}  // namespace shardwise::inline v0_2_0
