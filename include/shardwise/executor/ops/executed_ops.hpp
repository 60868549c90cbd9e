// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/activation.hpp>
#include <shardwise/executor/ops/add.hpp>
#include <shardwise/executor/ops/attention.hpp>
#include <shardwise/executor/ops/combine.hpp>
#include <shardwise/executor/ops/embedding.hpp>
#include <shardwise/executor/ops/experts.hpp>
#include <shardwise/executor/ops/gated_delta.hpp>
#include <shardwise/executor/ops/last_token.hpp>
#include <shardwise/executor/ops/linear.hpp>
#include <shardwise/executor/ops/norm.hpp>
#include <shardwise/executor/ops/part.hpp>
#include <shardwise/executor/ops/rope.hpp>
#include <shardwise/executor/ops/route.hpp>
#include <shardwise/executor/ops/scale.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Calls `rule` with the ExecutedOp of a kind.
template <ComputeBackend Backend, ReductionPolicy Policy, class Rule>
decltype(auto) visit_executed(OpKind kind, Rule&& rule) {
    return visit_op(kind, [&]<class Op>(Op) -> decltype(auto) { return rule(ExecutedOp<Op, Backend, Policy>{}); });
}

/// Whether all that an operation reads and makes has rows of one kind; what attends or rotates has a row for each token.
///
/// Errors  shape_mismatch
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] Result<> check_bound_rows(BoundOperation<Backend, Policy> const& bound) {
    auto const kind = bound.op->kind;
    bool const is_of_tokens = kind == OpKind::attention || kind == OpKind::rope;
    auto const rows = is_of_tokens ? Rows::tokens : bound.output.rows;
    bool fits = bound.output.rows == rows;
    for (auto const& input : bound.inputs) fits = fits && (input.width == 0 || input.rows == rows);
    if (fits) return {};
    return Error{ErrorCode::shape_mismatch}
        .in(name_of(kind))
        .because("has values with a row for each token and others with a row for each sequence or each chosen expert")
        .fix("give it values whose rows are of one kind");
}

/// Asks the operations of bound blocks once whether they fit between their values: the host's kernels are not asked in steps.
///
/// Errors  shape_mismatch; unsupported
template <ComputeBackend Backend, ReductionPolicy Policy, class Blocks>
[[nodiscard]] Result<> check_bound(Blocks const& blocks, KvCache<Backend> const& cache,
                                   StepRotations<Backend> const& rotations) {
    for (HeldBlock<Backend, Policy> const& block : blocks) {
        for (auto const& bound : block.operations) {
            BoundTo<Backend> const to{cache, bound.cache_layer, rotations, block.rotation};
            auto const fits = visit_executed<Backend, Policy>(bound.op->kind, [&](auto of) -> Result<> {
                if constexpr (requires { of.check(bound, to); }) {
                    if constexpr (!requires { of.changes_rows; }) {
                        if (auto const same = check_bound_rows(bound); !same) return same;
                    }
                    return of.check(bound, to);
                }
                return {};
            });
            if (!fits) return fits;
        }
    }
    return {};
}

/// The floats that a block's kernels and sums need beside their values in any step.
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] std::int64_t scratch_floats(CountedBlock const& block) {
    std::int64_t most = 0;
    std::size_t number = 0;
    for (auto const& op : block.body.operations()) {
        auto const needed =
            visit_executed<Backend, Policy>(op.kind, [&](auto of) { return of.scratch(block, op, number); });
        most = std::max(most, needed);
        ++number;
    }
    return most;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
