// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/combine_rows.hpp>
#include <shardwise/parallel/detail/expert_traffic.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What computes one expert of this rank, by its number among the rank's own: rows in, as many rows out.
template <class E, class Backend, class T = float>
concept ExpertWorker = requires(E& expert, TensorView<T const, 2, Backend> in, TensorView<T, 2, Backend> out,
                                typename Backend::Stream& stream) {
    { expert(std::int64_t{}, in, out, stream) } -> std::same_as<Result<>>;
};

/// Experts sharded over the ranks of a group (split_units over the experts): each rank has tokens of its own and sends each token's
/// row to the ranks of its experts, which compute all rows of an expert at once and send the results back. There is no capacity
/// that a busy expert could exceed: no row is dropped, and each pair of a token and an expert is computed once.
///
/// A token's result is the sum of its experts' rows times their weights, in the order in which the router chose them: the same
/// bits for any number of ranks, where the expert's rows do not depend on each other.
///
/// Memory  rows for the worst case, that every token of every rank chooses this rank's experts
template <ComputeBackend Backend, Communicator Comm>
class ExpertParallel {
public:
    using Stream = typename Backend::Stream;

    /// Errors  invalid_argument for more experts per token than experts, or extents below 1; size_overflow; out_of_memory
    [[nodiscard]] static Result<ExpertParallel> create(typename Backend::Context& context, Comm& comm,
                                                       ExpertShape const& shape) {
        static_assert(HasHostMemory<Backend>, "rows of a device travel by parallel/device_expert_parallel.hpp");
        if (auto const checked = detail::check_shape(shape); !checked) return checked.error();
        auto const room = detail::room_for(shape, comm.size(), comm.rank());
        if (!room) return room.error();
        ExpertParallel layer(comm, shape, *room);
        for (auto const& [buffer, elements] :
             {std::pair{&layer.sent_, room->sent}, std::pair{&layer.by_rank_, room->received},
              std::pair{&layer.by_expert_, room->received}}) {
            auto made = Buffer<float, Backend>::allocate(context, elements);
            if (!made) return made.error();
            *buffer = std::move(*made);
        }
        return Result<ExpertParallel>(std::move(layer));
    }

    /// What a rank of `ranks` will hold.
    ///
    /// Errors  size_overflow
    [[nodiscard]] static Result<Bytes> bytes_for(ExpertShape const& shape, std::int32_t ranks, std::int32_t rank) {
        auto const room = detail::room_for(shape, ranks, rank);
        if (!room) return room.error();
        return Bytes{4 * (room->sent + 2 * room->received)};
    }

    /// The experts that this rank holds.
    [[nodiscard]] UnitRange local_experts() const { return traffic_.local(); }

    /// out = sum over each token's experts of weight * expert(row). All ranks call it in the same step, also without tokens.
    ///
    /// Shapes  in, out [tokens, width], may be the same; ids, weights [tokens, experts_per_token], as `route` makes them;
    ///         tokens at most max_tokens, another number on each rank; where `input` is of pairs, in [tokens * experts_per_token, width]
    /// Order   waits for `stream` before rows are sent and before results are, until `deadline`: where rows go is known
    ///         only then. The other ranks are waited for as long as the group's timeout says
    /// Errors  shape_mismatch; invalid_argument for an id that is no expert; capacity_exceeded where tokens name an expert twice
    ///         and more rows come than there is room for; those of `expert` and of the collectives
    template <ExpertWorker<Backend> Expert>
    [[nodiscard]] Result<> forward(TensorView<float const, 2, Backend> in,
                                   TensorView<std::int32_t const, 2, Backend> ids,
                                   TensorView<float const, 2, Backend> weights, TensorView<float, 2, Backend> out,
                                   Expert&& expert, Stream& stream, Deadline deadline,
                                   ExpertInput input = ExpertInput::of_tokens) {
        auto const& shape = traffic_.shape();
        auto& comm = traffic_.comm();
        auto const checked = detail::check_routed(shape, in, ids, weights, out, input);
        if (!checked) return comm.fail(checked.error());
        if (auto const done = stream.synchronize(deadline); !done) return comm.fail(done.error());
        if (auto const ordered = traffic_.order(ids); !ordered) return comm.fail(ordered.error());
        traffic_.gather(in, input, sent_.data());
        float const* const gathered = sent_.data();
        if (auto const sent = traffic_.dispatch(gathered, by_rank_.data()); !sent) return sent;
        traffic_.group(by_rank_.data(), by_expert_.data());
        Result<> computed =
            traffic_.for_each_expert([&](std::int64_t i, std::int64_t at, std::int64_t rows) -> Result<> {
                // What arrived has been copied: its place takes the results, in the order of experts.
                return expert(i, TensorView<float const, 2, Backend>(by_expert_.data() + at, {rows, shape.width}),
                              TensorView<float, 2, Backend>(by_rank_.data() + at, {rows, shape.width}), stream);
            });
        if (computed) computed = stream.synchronize(deadline);
        if (!computed) return comm.fail(computed.error());
        auto const returned = traffic_.give_back(by_rank_.data(), by_expert_.data(), sent_.data());
        if (!returned) return returned;
        auto const pairs = weights.elements();
        TensorView<std::int32_t const, 1, Backend> const places(traffic_.exchange().places(pairs).data(), {pairs});
        TensorView<float const, 2, Backend> const rows(sent_.data(), {pairs, shape.width});
        return combine_rows(rows, places, weights, out, stream);
    }

    /// Rows that this rank's experts have computed since the layer was made: pairs of a token and an expert.
    [[nodiscard]] std::int64_t pairs_computed() const { return traffic_.pairs_computed(); }
    [[nodiscard]] Bytes bytes() const { return sent_.bytes() + by_rank_.bytes() + by_expert_.bytes(); }

private:
    ExpertParallel(Comm& comm, ExpertShape const& shape, detail::ExpertRoom const& room)
        : traffic_(comm, shape, room) {}

    detail::ExpertTraffic<Comm> traffic_;
    Buffer<float, Backend> sent_;
    /// Rows of the other ranks' tokens, in the order of ranks, then of experts; for results it is the other way round.
    Buffer<float, Backend> by_rank_;
    Buffer<float, Backend> by_expert_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
