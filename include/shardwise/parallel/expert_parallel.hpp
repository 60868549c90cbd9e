// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/all_to_all.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/combine_rows.hpp>
#include <shardwise/parallel/detail/expert_exchange.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The experts of one layer, and what a rank brings to them in one step.
struct ExpertShape {
    std::int64_t experts = 0;
    std::int64_t experts_per_token = 0;
    std::int64_t width = 0;
    /// The most tokens that any rank has in one step.
    std::int64_t max_tokens = 0;
};

/// What computes one expert of this rank, by its number among the rank's own: rows in, as many rows out.
template <class E, class Backend>
concept ExpertWorker = requires(E& expert, TensorView<float const, 2, Backend> in, TensorView<float, 2, Backend> out,
                                typename Backend::Stream& stream) {
    { expert(std::int64_t{}, in, out, stream) } -> std::same_as<Result<>>;
};

/// A back end whose rows can be sent to experts: those in the host's memory.
template <class B>
concept DealsExperts = ComputeBackend<B> && HasHostMemory<B>;

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
        static_assert(DealsExperts<Backend>, "experts move rows in the host's memory");
        auto const refused = [] { return Error{ErrorCode::invalid_argument}.in("expert parallelism"); };
        if (shape.experts < 1)
            return refused().at("experts").because("are less than one").got(shape.experts).at_least(1);
        if (shape.width < 1) return refused().at("width").because("is less than one").got(shape.width).at_least(1);
        if (shape.max_tokens < 0)
            return refused().at("max_tokens").because("are less than none").got(shape.max_tokens).at_least(0);
        if (shape.experts_per_token < 1 || shape.experts_per_token > shape.experts) {
            return refused()
                .at("experts_per_token")
                .because("is not between 1 and the number of experts")
                .got(shape.experts_per_token)
                .between(1, shape.experts);
        }
        ExpertParallel layer(comm, shape);
        auto const room = room_for(shape, comm.size(), comm.rank());
        if (!room) return room.error();
        for (auto const& [buffer, elements] :
             {std::pair{&layer.sent_, room->sent}, std::pair{&layer.by_rank_, room->received},
              std::pair{&layer.by_expert_, room->received}}) {
            auto made = Buffer<float, Backend>::allocate(context, elements);
            if (!made) return made.error();
            *buffer = std::move(*made);
        }
        layer.exchange_ =
            detail::ExpertExchange(shape.experts, comm.size(), comm.rank(), shape.max_tokens * shape.experts_per_token);
        return Result<ExpertParallel>(std::move(layer));
    }

    /// What a rank of `ranks` will hold.
    ///
    /// Errors  size_overflow
    [[nodiscard]] static Result<Bytes> bytes_for(ExpertShape const& shape, std::int32_t ranks, std::int32_t rank) {
        auto const room = room_for(shape, ranks, rank);
        if (!room) return room.error();
        return Bytes{4 * (room->sent + 2 * room->received)};
    }

    /// The experts that this rank holds.
    [[nodiscard]] UnitRange local_experts() const { return split_units(shape_.experts, comm_->size(), comm_->rank()); }

    /// out = sum over each token's experts of weight * expert(row). All ranks call it in the same step, also without tokens.
    ///
    /// Shapes  in, out [tokens, width], may be the same; ids, weights [tokens, experts_per_token], as `route` makes them;
    ///         tokens at most max_tokens, another number on each rank
    /// Order   waits for `stream` before rows are sent and before results are, until `deadline`: where rows go is known
    ///         only then. The other ranks are waited for as long as the group's timeout says
    /// Errors  shape_mismatch; invalid_argument for an id that is no expert; capacity_exceeded where tokens name an expert twice
    ///         and more rows come than there is room for; those of `expert` and of the collectives
    template <ExpertWorker<Backend> Expert>
    [[nodiscard]] Result<> forward(TensorView<float const, 2, Backend> in,
                                   TensorView<std::int32_t const, 2, Backend> ids,
                                   TensorView<float const, 2, Backend> weights, TensorView<float, 2, Backend> out,
                                   Expert&& expert, Stream& stream, Deadline deadline) {
        if (auto const checked = check(in, ids, weights, out); !checked) return comm_->fail(checked.error());
        if (auto const done = stream.synchronize(deadline); !done) return comm_->fail(done.error());
        if (auto const ordered = exchange_.order(ids); !ordered) return comm_->fail(ordered.error());
        if (auto const sent = dispatch(in); !sent) return sent;
        if (auto const computed = compute(expert, stream, deadline); !computed) return comm_->fail(computed.error());
        if (auto const returned = give_back(); !returned) return returned;
        auto const pairs = weights.elements();
        TensorView<std::int32_t const, 1, Backend> const places(exchange_.places(pairs).data(), {pairs});
        TensorView<float const, 2, Backend> const rows(sent_.data(), {pairs, shape_.width});
        return combine_rows(rows, places, weights, out, stream);
    }

    /// Rows that this rank's experts have computed since the layer was made: pairs of a token and an expert.
    [[nodiscard]] std::int64_t pairs_computed() const { return pairs_; }
    [[nodiscard]] Bytes bytes() const { return sent_.bytes() + by_rank_.bytes() + by_expert_.bytes(); }

private:
    using Rows = TensorView<float, 1, Backend>;
    using ConstRows = TensorView<float const, 1, Backend>;

    /// Elements of the rows that a rank sends, and of those that it gets at most.
    struct Room {
        std::int64_t sent = 0;
        std::int64_t received = 0;
    };
    [[nodiscard]] static Result<Room> room_for(ExpertShape const& shape, std::int32_t ranks, std::int32_t rank) {
        auto const own = std::min(split_units(shape.experts, ranks, rank).size(), shape.experts_per_token);
        auto const row = checked_multiply(shape.max_tokens, shape.width);
        auto const sent = row ? checked_multiply(*row, shape.experts_per_token) : row;
        auto const from_one = row ? checked_multiply(*row, own) : row;
        auto const received = from_one ? checked_multiply(*from_one, ranks) : from_one;
        auto const twice = received ? checked_multiply(*received, 2) : received;
        auto const all = sent && twice ? checked_add(*sent, *twice) : twice;
        // Pairs have 32-bit numbers.
        constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
        auto const pairs = checked_multiply(shape.max_tokens, shape.experts_per_token);
        if (!sent || !all || !checked_multiply(*all, 4) || !pairs || *pairs > most)
            return Error{ErrorCode::size_overflow}
                .in("expert parallelism")
                .at("max_tokens")
                .because("and a width give rows of more bytes than there are numbers")
                .got(shape.max_tokens)
                .fix("give each rank fewer tokens in one step");
        return Room{*sent, *received};
    }

    ExpertParallel(Comm& comm, ExpertShape const& shape) : comm_(&comm), shape_(shape) {}

    [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(shape_.width) * sizeof(float); }

    template <class In, class Ids, class Weights, class Out>
    [[nodiscard]] Result<> check(In const& in, Ids const& ids, Weights const& weights, Out const& out) const {
        if (auto const known = check_views("expert_parallel", in, ids, weights, out); !known) return known;
        auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("expert parallelism"); };
        auto const tokens = in.extent(0);
        if (tokens > shape_.max_tokens)
            return refused().because("has more tokens than it was made for").got(tokens).at_most(shape_.max_tokens);
        if (in.extent(1) != shape_.width || out.extent(1) != shape_.width)
            return refused().because("rows have another width").got(in.extent(1)).expected(shape_.width);
        if (ids.extent(1) != shape_.experts_per_token || weights.extent(1) != shape_.experts_per_token) {
            return refused()
                .because("ids or weights do not have a column per chosen expert")
                .got(ids.extent(1))
                .expected(shape_.experts_per_token);
        }
        if (ids.extent(0) != tokens || weights.extent(0) != tokens || out.extent(0) != tokens)
            return refused()
                .because("ids, weights and output do not have a row per token")
                .got(out.extent(0))
                .expected(tokens);
        return {};
    }

    [[nodiscard]] Result<> exchange_rows(ConstRows from, std::span<std::int64_t const> out_rows, Rows to,
                                         std::span<std::int64_t const> in_rows) {
        List<std::int64_t> sent(out_rows.size());
        List<std::int64_t> received(in_rows.size());
        for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = out_rows[i] * shape_.width;
        for (std::size_t i = 0; i < received.size(); ++i) received[i] = in_rows[i] * shape_.width;
        return all_to_all(*comm_, from, std::span<std::int64_t const>{sent}, to,
                          std::span<std::int64_t const>{received});
    }

    [[nodiscard]] Result<> dispatch(TensorView<float const, 2, Backend> in) {
        auto const chosen = shape_.experts_per_token;
        for (std::int64_t pair = 0; pair < in.extent(0) * chosen; ++pair) {
            std::memcpy(sent_.data() + exchange_.place(pair) * shape_.width, in.row(pair / chosen), row_bytes());
        }
        // How many rows each expert gets from each rank, then the rows.
        List<std::int64_t> asked(static_cast<std::size_t>(comm_->size()));
        List<std::int64_t> told(static_cast<std::size_t>(comm_->size()), local_experts().size());
        for (std::int32_t rank = 0; rank < comm_->size(); ++rank)
            asked[static_cast<std::size_t>(rank)] = split_units(shape_.experts, comm_->size(), rank).size();
        auto const counts = exchange_.sent();
        auto const received = exchange_.received();
        auto const size = [](auto const& span) { return static_cast<std::int64_t>(span.size()); };
        if (auto const done =
                all_to_all(*comm_, TensorView<std::int64_t const, 1, Backend>(counts.data(), {size(counts)}),
                           std::span<std::int64_t const>{asked},
                           TensorView<std::int64_t, 1, Backend>(received.data(), {size(received)}),
                           std::span<std::int64_t const>{told});
            !done) {
            return done;
        }
        exchange_.count_received();
        // A token that names an expert twice brings more rows than there is room for.
        if (exchange_.rows_received() * shape_.width > by_rank_.size()) {
            return comm_->fail(Error{ErrorCode::capacity_exceeded}
                                   .in("expert parallelism")
                                   .because("got more rows than tokens with different experts bring")
                                   .got(exchange_.rows_received())
                                   .at_most(by_rank_.size() / shape_.width)
                                   .fix("let each token choose different experts, and give all ranks one max_tokens"));
        }
        return exchange_rows(ConstRows(sent_.data(), {in.extent(0) * chosen * shape_.width}), exchange_.send_counts(),
                             Rows(by_rank_.data(), {exchange_.rows_received() * shape_.width}),
                             exchange_.receive_counts());
    }

    template <class Expert>
    [[nodiscard]] Result<> compute(Expert& expert, Stream& stream, Deadline deadline) {
        exchange_.for_each_run([&](std::int64_t arrived, std::int64_t grouped, std::int64_t rows) {
            std::memcpy(by_expert_.data() + grouped * shape_.width, by_rank_.data() + arrived * shape_.width,
                        static_cast<std::size_t>(rows) * row_bytes());
        });
        std::int64_t begin = 0;
        for (std::int64_t i = 0; i < local_experts().size(); ++i) {
            auto const rows = exchange_.rows_of(i);
            if (rows == 0) continue;
            auto const offset = begin * shape_.width;
            // What arrived has been copied: its place takes the results, in the order of experts.
            TensorView<float const, 2, Backend> const in(by_expert_.data() + offset, {rows, shape_.width});
            TensorView<float, 2, Backend> const out(by_rank_.data() + offset, {rows, shape_.width});
            if (Result<> const done = expert(i, in, out, stream); !done) return done;
            pairs_ += rows;
            begin += rows;
        }
        return stream.synchronize(deadline);
    }

    [[nodiscard]] Result<> give_back() {
        exchange_.for_each_run([&](std::int64_t arrived, std::int64_t grouped, std::int64_t rows) {
            std::memcpy(by_expert_.data() + arrived * shape_.width, by_rank_.data() + grouped * shape_.width,
                        static_cast<std::size_t>(rows) * row_bytes());
        });
        std::int64_t pairs = 0;
        for (auto const rows : exchange_.send_counts()) pairs += rows;
        return exchange_rows(ConstRows(by_expert_.data(), {exchange_.rows_received() * shape_.width}),
                             exchange_.receive_counts(), Rows(sent_.data(), {pairs * shape_.width}),
                             exchange_.send_counts());
    }

    Comm* comm_;
    ExpertShape shape_;
    detail::ExpertExchange exchange_;
    std::int64_t pairs_ = 0;
    Buffer<float, Backend> sent_;
    /// Rows of the other ranks' tokens, in the order of ranks, then of experts; for results it is the other way round.
    Buffer<float, Backend> by_rank_;
    Buffer<float, Backend> by_expert_;
};

static_assert(DealsExperts<Host>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
