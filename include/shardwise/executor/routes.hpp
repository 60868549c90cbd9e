// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/executor/block_walk.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/rank_home.hpp>
#include <shardwise/executor/routing_table.hpp>
#include <shardwise/kernels/order_experts.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/place.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// An expert-parallel rank and their number.
///
/// Errors  invalid_argument where there is no such rank, or more of them than experts
[[nodiscard]] inline Result<> check_expert_place(TensorPlace place, ModelConfig const& config) {
    Error refused{ErrorCode::invalid_argument};
    refused.in("ep");
    if (place.ranks < 1 || place.rank < 0 || place.rank >= place.ranks)
        return refused.because("has no such rank").got(place.rank).between(0, place.ranks - 1);
    auto const most = std::max<std::int64_t>(config.experts, 1);
    if (place.ranks <= most) return {};
    return refused.because("is more ranks than the model has experts")
        .got(place.ranks)
        .at_most(most)
        .fix("use at most one expert-parallel rank per expert");
}

/// What a rank sends to the experts of other groups in one layer of a step.
[[nodiscard]] inline ExpertShape exchanged_rows(ModelConfig const& config, ExecutorLimits const& limits) {
    return {config.experts, config.experts_per_token, config.hidden_size, limits.step_tokens, limits.activations};
}

/// A router's choice as it lies in the arena: the numbers of all tokens' experts, then their weights.
///
/// Shapes  ids, weights [tokens, experts_per_token]
template <ComputeBackend Backend>
struct Routes {
    TensorView<std::int32_t, 2, Backend> ids;
    TensorView<float, 2, Backend> weights;

    /// `value` is [tokens, 2 * experts_per_token] of the arena, whose 32 bits are of either type.
    explicit Routes(TensorView<float, 2, Backend> value)
        : ids(reinterpret_cast<std::int32_t*>(value.data()), {value.extent(0), value.extent(1) / 2}),
          weights(value.data() + value.elements() / 2, {value.extent(0), value.extent(1) / 2}) {}
};

namespace detail {

template <ComputeBackend Backend, Communicator C>
[[nodiscard]] Result<ExpertParallel<Backend, C>> make_exchange(RankHome<Backend> const& home, C& peers,
                                                               ExpertShape const& shape) {
    if constexpr (HasHostMemory<Backend>)
        return ExpertParallel<Backend, C>::create(home.context, peers, shape);
    else
        return ExpertParallel<Backend, C>::create(home.context, home.host.memory(), peers, shape);
}

/// Collectives in the stream end by deadlines of their own.
[[nodiscard]] inline Deadline far_deadline() {
    return Deadline::after(std::chrono::hours(24));
}

/// The order of the rows that an operation's experts compute, in the operation's workspace.
///
/// Order  on the walk's stream
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C, ActivationElement T>
[[nodiscard]] Result<RoutingTable<Backend>> order_rows(BlockWalk<Backend, Policy, C, T>& walk,
                                                       BoundOperation<Backend, Policy> const& op, RoutingOrder by) {
    Routes<Backend> const routes(walk.floats(op.inputs[1]));
    RoutingTable<Backend> const table(op.workspace, routes.ids.elements(), op.op->routing().experts);
    TensorView<std::int32_t const, 2, Backend> const ids = routes.ids;
    auto const done = order_experts(ids, by, table.order, table.first, walk.stream);
    if (!done) return done.error();
    return table;
}

/// Where each expert's rows begin, and the end of the last, as the host knows it: it says how many rows a product has. Waits for the
/// stream, once for all operations of a block that go by the same `choice`.
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C, ActivationElement T>
[[nodiscard]] Result<std::span<std::int32_t const>> count_rows(BlockWalk<Backend, Policy, C, T>& walk, ValueId choice,
                                                               RoutingTable<Backend> const& table) {
    auto& counted = walk.state.counted;
    if (counted.choice != choice) {
        counted.first.resize(static_cast<std::size_t>(table.first.elements()));
        TensorView<std::int32_t const, 1, Backend> const from = table.first;
        TensorView<std::int32_t, 1, Host> const to(counted.first.data(), {from.elements()});
        auto const copied = Backend::template copy<std::int32_t>(from, to, walk.stream);
        if (!copied) return copied.error();
        auto const done = walk.stream.synchronize(far_deadline());
        if (!done) return done.error();
        counted.choice = choice;
    }
    return std::span<std::int32_t const>(counted.first);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
