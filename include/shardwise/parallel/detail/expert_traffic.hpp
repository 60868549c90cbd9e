// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/all_to_all.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/parallel/detail/expert_exchange.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The experts of one layer, and what a rank brings to them in one step.
struct ExpertShape {
    std::int64_t experts = 0;
    std::int64_t experts_per_token = 0;
    std::int64_t width = 0;
    /// The most tokens that any rank has in one step.
    std::int64_t max_tokens = 0;
    /// What rows are made of: on the host f32, on a device any type of activations.
    Dtype rows = Dtype::f32;
};

/// What experts are given: each token's row, or a row for each pair of a token and an expert, in the order of experts and then of tokens
/// (RoutingOrder::row_of_pair).
enum class ExpertInput : std::uint8_t { of_tokens, of_pairs };

namespace detail {

/// Elements of the rows that a rank sends, and of those that it gets at most.
struct ExpertRoom {
    std::int64_t sent = 0;
    std::int64_t received = 0;
};

/// Errors  size_overflow
[[nodiscard]] inline Result<ExpertRoom> room_for(ExpertShape const& shape, std::int32_t ranks, std::int32_t rank) {
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
    return ExpertRoom{*sent, *received};
}

/// Errors  invalid_argument for more experts per token than experts, or extents below 1
[[nodiscard]] inline Result<> check_shape(ExpertShape const& shape) {
    auto const refused = [] { return Error{ErrorCode::invalid_argument}.in("expert parallelism"); };
    if (shape.experts < 1) return refused().at("experts").because("are less than one").got(shape.experts).at_least(1);
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
    return {};
}

/// Errors  shape_mismatch
template <class In, class Ids, class Weights, class Out>
[[nodiscard]] Result<> check_routed(ExpertShape const& shape, In const& in, Ids const& ids, Weights const& weights,
                                    Out const& out, ExpertInput input) {
    if (auto const known = check_views("expert_parallel", in, ids, weights, out); !known) return known;
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("expert parallelism"); };
    auto const tokens = out.extent(0);
    if (tokens > shape.max_tokens)
        return refused().because("has more tokens than it was made for").got(tokens).at_most(shape.max_tokens);
    if (in.extent(1) != shape.width || out.extent(1) != shape.width)
        return refused().because("rows have another width").got(in.extent(1)).expected(shape.width);
    if (ids.extent(1) != shape.experts_per_token || weights.extent(1) != shape.experts_per_token) {
        return refused()
            .because("ids or weights do not have a column per chosen expert")
            .got(ids.extent(1))
            .expected(shape.experts_per_token);
    }
    if (ids.extent(0) != tokens || weights.extent(0) != tokens)
        return refused().because("ids and weights do not have a row per token").got(ids.extent(0)).expected(tokens);
    auto const rows = input == ExpertInput::of_tokens ? tokens : ids.elements();
    if (in.extent(0) != rows) return refused().because("has another number of rows").got(in.extent(0)).expected(rows);
    return {};
}

/// How rows of tokens travel to the ranks of their experts and back, all of them in the host's memory, which callers have: `sent` for a rank's
/// own pairs, `by_rank` and `by_expert` for the rows of all ranks' tokens that choose its experts.
template <Communicator Comm>
class ExpertTraffic {
public:
    ExpertTraffic(Comm& comm, ExpertShape const& shape, ExpertRoom const& room)
        : comm_(&comm),
          shape_(shape),
          most_rows_(room.received / shape.width),
          exchange_(shape.experts, comm.size(), comm.rank(), shape.max_tokens * shape.experts_per_token) {}

    /// The experts that this rank holds.
    [[nodiscard]] UnitRange local() const { return split_units(shape_.experts, comm_->size(), comm_->rank()); }
    [[nodiscard]] Comm& comm() { return *comm_; }
    [[nodiscard]] ExpertShape const& shape() const { return shape_; }
    [[nodiscard]] ExpertExchange const& exchange() const { return exchange_; }

    /// Says by ids where each row goes; this rank alone.
    ///
    /// Errors  invalid_argument for an id that is no expert
    [[nodiscard]] Result<> order(TensorView<std::int32_t const, 2, Host> ids) { return exchange_.order(ids); }

    /// Puts each pair's row where it is sent from; those of pairs lie in that order already.
    template <class T>
    void gather(TensorView<T const, 2, Host> in, ExpertInput input, T* sent) const {
        auto const chosen = input == ExpertInput::of_tokens ? shape_.experts_per_token : 1;
        for (std::int64_t pair = 0; pair < in.extent(0) * chosen; ++pair) {
            auto const place = input == ExpertInput::of_tokens ? exchange_.place(pair) : pair;
            std::memcpy(sent + place * shape_.width, in.row(pair / chosen), row_bytes<T>());
        }
    }

    /// Sends the rows that were gathered, and takes the other ranks', by rank and then by expert.
    ///
    /// Errors  capacity_exceeded where tokens name an expert twice and more rows come than there is memory for; those of the collectives
    template <class T>
    [[nodiscard]] Result<> dispatch(T const* sent, T* by_rank) {
        // How many rows each expert gets from each rank, then the rows.
        List<std::int64_t> asked(static_cast<std::size_t>(comm_->size()));
        List<std::int64_t> told(static_cast<std::size_t>(comm_->size()), local().size());
        for (std::int32_t rank = 0; rank < comm_->size(); ++rank)
            asked[static_cast<std::size_t>(rank)] = split_units(shape_.experts, comm_->size(), rank).size();
        auto const counts = exchange_.sent();
        auto const received = exchange_.received();
        auto const size = [](auto const& span) { return static_cast<std::int64_t>(span.size()); };
        if (auto const done = all_to_all(*comm_, TensorView<std::int64_t const, 1, Host>(counts.data(), {size(counts)}),
                                         std::span<std::int64_t const>{asked},
                                         TensorView<std::int64_t, 1, Host>(received.data(), {size(received)}),
                                         std::span<std::int64_t const>{told});
            !done) {
            return done;
        }
        exchange_.count_received();
        // A token that names an expert twice brings more rows than there is room for.
        if (exchange_.rows_received() > most_rows_) {
            return comm_->fail(Error{ErrorCode::capacity_exceeded}
                                   .in("expert parallelism")
                                   .because("got more rows than tokens with different experts bring")
                                   .got(exchange_.rows_received())
                                   .at_most(most_rows_)
                                   .fix("let each token choose different experts, and give all ranks one max_tokens"));
        }
        return exchange_rows(sent, exchange_.send_counts(), by_rank, exchange_.receive_counts());
    }

    /// Brings what arrived into the order of experts.
    template <class T>
    void group(T const* by_rank, T* by_expert) const {
        exchange_.for_each_run([&](std::int64_t arrived, std::int64_t grouped, std::int64_t rows) {
            std::memcpy(by_expert + grouped * shape_.width, by_rank + arrived * shape_.width,
                        static_cast<std::size_t>(rows) * row_bytes<T>());
        });
    }

    /// Calls compute(expert, first element, rows) for each of this rank's experts that has rows, which lie in the order of experts.
    template <class Compute>
    [[nodiscard]] Result<> for_each_expert(Compute const& compute) {
        std::int64_t begin = 0;
        for (std::int64_t i = 0; i < local().size(); ++i) {
            auto const rows = exchange_.rows_of(i);
            if (rows == 0) continue;
            if (Result<> const done = compute(i, begin * shape_.width, rows); !done) return done;
            pairs_ += rows;
            begin += rows;
        }
        return {};
    }

    /// Sends the results in the order of experts, by way of `by_rank`, to whose tokens they are; this rank's arrive in `sent`.
    ///
    /// Errors  those of the collectives
    template <class T>
    [[nodiscard]] Result<> give_back(T const* by_expert, T* by_rank, T* sent) {
        exchange_.for_each_run([&](std::int64_t arrived, std::int64_t grouped, std::int64_t rows) {
            std::memcpy(by_rank + arrived * shape_.width, by_expert + grouped * shape_.width,
                        static_cast<std::size_t>(rows) * row_bytes<T>());
        });
        return exchange_rows(by_rank, exchange_.receive_counts(), sent, exchange_.send_counts());
    }

    [[nodiscard]] std::int64_t pairs_computed() const { return pairs_; }

private:
    template <class T>
    [[nodiscard]] std::size_t row_bytes() const {
        return static_cast<std::size_t>(shape_.width) * sizeof(T);
    }

    template <class T>
    [[nodiscard]] Result<> exchange_rows(T const* from, std::span<std::int64_t const> out_rows, T* to,
                                         std::span<std::int64_t const> in_rows) {
        List<std::int64_t> sent(out_rows.size());
        List<std::int64_t> received(in_rows.size());
        std::int64_t all_sent = 0;
        std::int64_t all_received = 0;
        for (std::size_t i = 0; i < sent.size(); ++i) all_sent += sent[i] = out_rows[i] * shape_.width;
        for (std::size_t i = 0; i < received.size(); ++i) all_received += received[i] = in_rows[i] * shape_.width;
        return all_to_all(*comm_, TensorView<T const, 1, Host>(from, {all_sent}), std::span<std::int64_t const>{sent},
                          TensorView<T, 1, Host>(to, {all_received}), std::span<std::int64_t const>{received});
    }

    Comm* comm_;
    ExpertShape shape_;
    std::int64_t most_rows_;
    ExpertExchange exchange_;
    std::int64_t pairs_ = 0;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
