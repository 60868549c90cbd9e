// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/ops/executed_op.hpp>
#include <shardwise/executor/routes.hpp>
#include <shardwise/kernels/route.hpp>

#include <concepts>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How a router chooses.
[[nodiscard]] inline RouterOptions router_options(Routing const& routing) {
    auto const& rule = routing.rule;
    return {.experts_per_token = routing.experts_per_token,
            .score = rule.score,
            .renormalises = rule.renormalises,
            .scale = static_cast<float>(rule.scale),
            .groups = rule.groups,
            .kept_groups = rule.kept_groups,
            .group_rank = rule.group_rank,
            .near_share = static_cast<float>(rule.near_share)};
}

template <ComputeBackend Backend, ReductionPolicy Policy>
struct ExecutedOp<RouteOp, Backend, Policy> : HoldsNothing<Backend, Policy> {
    /// How it chooses, and what corrects the scores then, where the router has it.
    [[nodiscard]] static Result<HeldOperation<Backend, Policy>> load(OperationLoader<Backend> const& from,
                                                                     Operation const& op, BlockBody const&,
                                                                     BlockCut const&) {
        auto correction = from.hold_vector(op.parameters[0], op.routing().experts);
        if (!correction) return correction.error();
        return HeldOperation<Backend, Policy>{
            HeldRouter<Backend>{std::move(*correction), router_options(op.routing())}};
    }

    [[nodiscard]] static Result<> count(MemoryTally& to, CountedBlock const&, Operation const& op, ParameterFormat) {
        to.add_vector(op, 0, op.routing().experts);
        return {};
    }

    [[nodiscard]] static Result<> check(BoundOperation<Backend, Policy> const& op, BoundTo<Backend> const&) {
        auto const& held = std::get<HeldRouter<Backend>>(op.held);
        Routes<Backend> const chosen(row_of<Backend>(op.output));
        TensorView<float const, 2, Backend> const scores = row_of<Backend>(op.inputs[0]);
        TensorView<float const, 1, Backend> const correction = held.correction.view();
        return check_route(scores, correction, chosen.ids, chosen.weights, held.options);
    }

    template <Communicator C, ActivationElement T>
    [[nodiscard]] static Result<> run(BlockWalk<Backend, Policy, C, T>& walk,
                                      BoundOperation<Backend, Policy> const& op) {
        Routes<Backend> const chosen(walk.floats(op.output));
        walk.routed_rows = walk.tokens * op.op->routing().experts_per_token;
        auto const& held = std::get<HeldRouter<Backend>>(op.held);
        TensorView<float const, 2, Backend> const scores = walk.floats(op.inputs[0]);
        if constexpr (std::same_as<Backend, Host>)
            return route_bound(scores, held.correction.view(), chosen.ids, chosen.weights, held.options, walk.stream);
        else
            return route(scores, held.correction.view(), chosen.ids, chosen.weights, held.options, walk.stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
