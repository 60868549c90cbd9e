// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/all_to_all.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/reduce_scatter.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/parallel/policy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

// Collectives in stream order, as parallel layers use them: each is put into the stream after what makes its input and before
// what reads its output, and the caller goes on. A collective that fails stops the stream: what follows is skipped and
// `synchronize` returns the error. While a stream has collectives of a communicator, nothing else uses that communicator.
//
// A back end whose streams live on a device overloads these functions for its views and streams.

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Errors  capacity_exceeded for more ranks than RankCounts has room for
[[nodiscard]] inline Result<> check_group(std::int32_t ranks) {
    return check_place("tensor parallel", {ranks, 0});
}

/// A number per rank, without memory of its own to allocate.
struct RankCounts {
    std::array<std::int64_t, max_group_ranks> values;
    std::size_t ranks = 0;

    template <class Count>
    RankCounts(std::int32_t size, Count const& count) : ranks(static_cast<std::size_t>(size)) {
        for (std::int32_t rank = 0; rank < size; ++rank) values[static_cast<std::size_t>(rank)] = count(rank);
    }
    [[nodiscard]] std::span<std::int64_t const> span() const { return {values.data(), ranks}; }
};

}  // namespace detail

/// Sums (or takes the largest of) `data` over all ranks, in place; nothing to do for one rank.
///
/// Shapes  data [n], the same n on all ranks
/// Order   on `stream`; `comm` outlives what is in it
template <class T, Communicator C>
void submit_all_reduce(C& comm, TensorView<T, 1, Host> data, ReduceOp op, HostStream& stream) {
    if (comm.size() == 1) return;
    stream.submit([&comm, data, op] { return all_reduce(comm, data, op); });
}

/// Gathers `count(rank)` elements of each rank, one after another; `in` may lie at its place in `out`.
///
/// Shapes  in [count(own rank)], out [sum of counts]
/// Order   on `stream`; `comm` and what `count` refers to outlive what is in it
template <class T, Communicator C, class Count>
void submit_all_gather(C& comm, TensorView<T const, 1, Host> in, TensorView<T, 1, Host> out, Count count,
                       HostStream& stream) {
    stream.submit([&comm, in, out, count]() -> Result<> {
        if (auto const checked = detail::check_group(comm.size()); !checked) return checked;
        detail::RankCounts const counts(comm.size(), count);
        return all_gather(comm, in, out, counts.span());
    });
}

/// Sums `in` over all ranks and leaves each its `count(rank)` elements.
///
/// Shapes  in [sum of counts], out [count(own rank)]
/// Order   on `stream`; `comm` and what `count` refers to outlive what is in it
template <class T, Communicator C, class Count>
void submit_reduce_scatter(C& comm, TensorView<T const, 1, Host> in, TensorView<T, 1, Host> out, Count count,
                           HostStream& stream) {
    stream.submit([&comm, in, out, count]() -> Result<> {
        if (auto const checked = detail::check_group(comm.size()); !checked) return checked;
        detail::RankCounts const counts(comm.size(), count);
        return reduce_scatter(comm, in, out, counts.span());
    });
}

/// Gives rank r the `sent(r)` elements of `in` that are for it and takes `received(r)` from it.
///
/// Shapes  in [sum of sent], out [sum of received]
/// Order   on `stream`; `comm` and what the counts refer to outlive what is in it
template <class T, Communicator C, class Sent, class Received>
void submit_all_to_all(C& comm, TensorView<T const, 1, Host> in, Sent sent, TensorView<T, 1, Host> out,
                       Received received, HostStream& stream) {
    stream.submit([&comm, in, sent, out, received]() -> Result<> {
        if (auto const checked = detail::check_group(comm.size()); !checked) return checked;
        detail::RankCounts const send_counts(comm.size(), sent);
        detail::RankCounts const receive_counts(comm.size(), received);
        return all_to_all(comm, in, send_counts.span(), out, receive_counts.span());
    });
}

/// Restores all tokens' rows from the rows that sequence parallelism sharded over the ranks.
///
/// Shapes  in [split_units(tokens, ranks, rank), width] dense, out [tokens, width] dense
/// Order   on `stream`
template <class Backend, Communicator C>
[[nodiscard]] Result<> gather_tokens(C& comm, TensorView<float const, 2, Backend> in, TensorView<float, 2, Backend> out,
                                     typename Backend::Stream& stream) {
    if (auto const known = check_views("gather_tokens", in, out); !known) return known;
    auto const tokens = out.extent(0);
    auto const width = out.extent(1);
    auto const own = split_units(tokens, comm.size(), comm.rank()).size();
    if (in.extent(0) != own || in.extent(1) != width || !in.is_dense() || !out.is_dense()) {
        return Error{ErrorCode::shape_mismatch}
            .in("gather_tokens")
            .because("the input is not this rank's share of the tokens, or rows have gaps")
            .got(in.extent(0))
            .expected(own);
    }
    auto const count = [ranks = comm.size(), tokens, width](std::int32_t rank) {
        return split_units(tokens, ranks, rank).size() * width;
    };
    submit_all_gather(comm, TensorView<float const, 1, Backend>{in.data(), {own * width}},
                      TensorView<float, 1, Backend>{out.data(), {tokens * width}}, count, stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
