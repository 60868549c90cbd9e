// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/isa.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/held_experts.hpp>
#include <shardwise/executor/memory_tally.hpp>
#include <shardwise/executor/ops/executed_ops.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <functional>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Says how a parameter is held, by its full name.
using FormatOf = std::function<Result<ParameterFormat>(std::string const& name)>;

namespace detail {

/// The rank whose share of a model is counted before it is loaded.
struct CountedRank {
    Model const& model;
    FormatOf const& format_of;
    TensorPlace place;
    TensorPlace experts;
    ExecutorLimits const& limits;
    IsaLevel isa = IsaLevel::portable;

    /// How an operation's first parameter is held; `prefix` is its block's module. Experts are held alike.
    [[nodiscard]] Result<ParameterFormat> held(Operation const& op, std::string const& prefix) const {
        return format_of(parameter_name(prefix, op.parameters[0], own_experts(op, experts).begin));
    }
    [[nodiscard]] CountedBlock block(BlockBody const& body, BlockCut const& cut) const {
        return {model, body, cut, place, experts, limits, isa};
    }
};

/// A block as the rank will hold its values.
///
/// Errors  those of `format_of` and of cuts that are not legal
template <ReductionPolicy Policy>
[[nodiscard]] Result<BlockCut> cut_block(CountedRank const& rank, BlockBody const& body, std::string const& prefix) {
    auto const grain_of = [&](Operation const& op) -> Result<WeightGrain> {
        auto const held = rank.held(op, prefix);
        if (!held) return held.error();
        return weight_grain(held->format, held->group);
    };
    return BlockCutter<Policy>(body, rank.place, grain_of).cut();
}

/// Adds what the rank will hold of an operation.
///
/// Errors  those of `format_of`; size_overflow; unsupported for a format that the back end does not multiply by
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] Result<> count_operation(MemoryTally& to, CountedRank const& rank, CountedBlock const& block,
                                       Operation const& op, std::string const& prefix) {
    ParameterFormat held;
    if (weights_of(op.kind) != OpWeights::none && !op.parameters[0].empty()) {
        auto const found = rank.held(op, prefix);
        if (!found) return found.error();
        held = *found;
    }
    return visit_executed<Backend, Policy>(op.kind, [&](auto of) { return of.count(to, block, op, held); });
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
