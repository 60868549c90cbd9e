// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/executor/block_values.hpp>
#include <shardwise/executor/routing_table.hpp>
#include <shardwise/executor/walk_activation.hpp>
#include <shardwise/kernels/embedding.hpp>
#include <shardwise/kernels/route.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/detail/combine_rows.hpp>
#include <shardwise/parallel/expert_parallel.hpp>
#include <shardwise/parallel/place.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a model's routers choose.
[[nodiscard]] inline RouterOptions router_options(ModelConfig const& config, Operation const& op) {
    RouterOptions options;
    options.experts_per_token = op.experts_per_token;
    options.score = config.router_score;
    options.renormalises = config.norm_expert_weights;
    options.scale = static_cast<float>(config.routed_scale);
    options.groups = config.expert_groups;
    options.kept_groups = config.kept_expert_groups;
    options.group_rank = config.group_rank;
    return options;
}

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

/// Computes the experts of one block in one step, each with all of its rows at once; experts without rows are not looked at.
/// Where other ranks have some of the experts, rows travel to them and back when they are to be combined.
template <ComputeBackend Backend, ReductionPolicy Policy, Communicator C>
class ExpertWalker {
public:
    using Stream = typename Backend::Stream;
    using Matrix = TensorView<float, 2, Backend>;
    using ConstMatrix = TensorView<float const, 2, Backend>;

    ExpertWalker(Model const& model, HeldBlock<Backend, Policy> const& block, StepView<Backend> const& step,
                 BlockValues<Backend, Policy>& values, C& comm, ExpertParallel<Backend, C>* exchange, Stream& stream)
        : model_(model),
          block_(block),
          step_(step),
          values_(values),
          comm_(comm),
          exchange_(exchange),
          stream_(stream) {}

    /// True for what is computed only once rows have come.
    [[nodiscard]] bool computes_later(Operation const& op) const { return exchange_ != nullptr && is_routed(op); }

    [[nodiscard]] Result<> compute(Operation const& op, std::size_t index) {
        auto const& held = block_.operations[index];
        if (op.kind == OpKind::route) return choose(op, std::get<HeldVector<Backend>>(held));
        if (op.kind == OpKind::combine) return exchange_ != nullptr ? exchange(op, index) : combine(op, index);
        if (auto const* const columns = std::get_if<ExpertColumns<Backend>>(&held))
            return dispatch(op, index, *columns);
        auto const table = order(op, index, RoutingOrder::token_of_row);
        if (!table) return table.error();
        return std::get<ExpertRows<Backend, Policy>>(held).forward(
            {0, table->first}, values_.view(op.inputs[0]), values_.view(op.output), step_.scratch, comm_, stream_);
    }

private:
    [[nodiscard]] bool is_routed(Operation const& op) const { return values_.of(op.output).rows == Rows::routed; }
    [[nodiscard]] Routes<Backend> routes(ValueId id) const { return Routes<Backend>(values_.view(id)); }

    [[nodiscard]] Result<> choose(Operation const& op, HeldVector<Backend> const& correction) {
        auto const chosen = routes(op.output);
        values_.routed_rows = step_.ids.elements() * op.experts_per_token;
        return route(values_.view(op.inputs[0]), correction.values.view(), chosen.ids, chosen.weights,
                     router_options(model_.config, op), stream_);
    }

    /// Collectives in the stream end by deadlines of their own.
    [[nodiscard]] static Deadline far() { return Deadline::after(std::chrono::hours(24)); }

    /// Who computes what is known only once the router has been computed: it waits for the stream.
    [[nodiscard]] Result<RoutingTable> order(Operation const& op, std::size_t index, RoutingOrder by) {
        auto const done = stream_.synchronize(far());
        if (!done) return done.error();
        return make_routing_table(routes(op.inputs[1]).ids, op.experts, by, values_.table(index));
    }

    /// Rows in the order of tokens go to their experts, one expert's at a time.
    [[nodiscard]] Result<> dispatch(Operation const& op, std::size_t index, ExpertColumns<Backend> const& held) {
        auto const table = order(op, index, RoutingOrder::token_of_row);
        if (!table) return table.error();
        ConstMatrix const in = values_.view(op.inputs[0]);
        auto const out = values_.view(op.output);
        return ExpertRuns{0, table->first}.for_each({0, out.extent(0)}, [&](std::size_t expert, UnitRange rows) {
            auto const count = rows.size();
            auto const* const tokens = table->order.data() + rows.begin;
            // One row is read where it lies.
            if (count == 1) return held.experts[expert].forward(in.rows(*tokens, 1), out.rows(rows.begin, 1), stream_);
            Matrix const gathered(step_.scratch.data(), {count, in.extent(1)});
            TensorView<std::int32_t const, 1, Backend> const ids(tokens, {count});
            Result<> const done = embedding<float>(ids, in, gathered, stream_);
            return done ? held.experts[expert].forward(gathered, out.rows(rows.begin, count), stream_) : done;
        });
    }

    /// Each token's sum over its experts; under Fast the ranks' summands of it are added.
    [[nodiscard]] Result<> combine(Operation const& op, std::size_t index) {
        auto const table = order(op, index, RoutingOrder::row_of_pair);
        if (!table) return table.error();
        auto const* const places = table->order.data();
        auto const place = [places](std::int64_t pair) { return static_cast<std::int64_t>(places[pair]); };
        auto const out = values_.view(op.output);
        combine_rows<Backend>(values_.view(op.inputs[0]).data(), place, routes(op.inputs[1]).weights, out, stream_);
        sum_over_ranks(out);
        return {};
    }
    void sum_over_ranks(Matrix out) {
        if constexpr (!Policy::has_fixed_tree) {
            TensorView<float, 1, Backend> const all(out.data(), {out.elements()});
            submit_all_reduce(comm_, all, ReduceOp::sum, stream_);
        }
    }

    /// Rows go to the ranks of their experts, which compute what stands between the router and the combination.
    [[nodiscard]] Result<> exchange(Operation const& op, std::size_t combination) {
        auto const& operations = block_.program->operations();
        auto first = combination;
        while (first > 0 && is_routed(operations[first - 1])) --first;
        auto const chosen = routes(op.inputs[1]);
        auto const out = values_.view(op.output);
        auto const expert = [&](std::int64_t number, ConstMatrix rows, Matrix results, Stream&) -> Result<> {
            for (std::int64_t begin = 0; begin < rows.extent(0); begin += step_.routed_room) {
                auto const count = std::min(step_.routed_room, rows.extent(0) - begin);
                auto const done =
                    compute_expert(first, combination, number, rows.rows(begin, count), results.rows(begin, count));
                if (!done) return done;
            }
            return {};
        };
        auto const done = exchange_->forward(values_.view(operations[first].inputs[0]), chosen.ids, chosen.weights, out,
                                             expert, stream_, far());
        if (done) sum_over_ranks(out);
        return done;
    }
    /// One expert's rows through the operations [first, last): values between them lie where the arena has those of the rank's
    /// own rows.
    [[nodiscard]] Result<> compute_expert(std::size_t first, std::size_t last, std::int64_t expert, ConstMatrix in,
                                          Matrix out) {
        values_.routed_rows = in.extent(0);
        std::int32_t const rows[] = {0, static_cast<std::int32_t>(in.extent(0))};
        for (auto i = first; i < last; ++i) {
            auto const& op = block_.program->operations()[i];
            auto const& held = block_.operations[i];
            bool const reads_tokens = values_.of(op.inputs[0]).rows == Rows::tokens;
            ConstMatrix const from = reads_tokens ? in : values_.view(op.inputs[0]);
            Result<> done;
            if (auto const* const columns = std::get_if<ExpertColumns<Backend>>(&held)) {
                done =
                    columns->experts[static_cast<std::size_t>(expert)].forward(from, values_.view(op.output), stream_);
            } else if (auto const* const sum = std::get_if<ExpertRows<Backend, Policy>>(&held)) {
                done = sum->forward({expert, rows}, from, out, step_.scratch, comm_, stream_);
            } else {
                done = walk_activation(values_, op, stream_);
            }
            if (!done) return done;
        }
        return {};
    }

    Model const& model_;
    HeldBlock<Backend, Policy> const& block_;
    StepView<Backend> const& step_;
    BlockValues<Backend, Policy>& values_;
    C& comm_;
    ExpertParallel<Backend, C>* exchange_;
    Stream& stream_;
};

}  // namespace detail
}  // namespace shardwise::inline SHARDWISE_NAMESPACE
