// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/counts_mismatch.hpp>
#include <shardwise/comm/detail/message_collectives.hpp>
#include <shardwise/comm/detail/rank_names.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A sender and a receiver that mean parts of other lengths.
[[nodiscard]] inline Error part_mismatch(RankNames const& names, Dtype dtype, std::int32_t from, std::int64_t sent,
                                         std::int32_t to, std::int64_t expected) {
    auto const text = [&](std::int64_t count) {
        return std::string(traits(dtype).short_name) + " x " + std::to_string(count);
    };
    return Error{ErrorCode::collective_mismatch}
        .in(names.name(from))
        .because("sends " + text(sent) + " to " + names.name(to) + " in all_to_all, which expects " + text(expected))
        .fix("exchange the counts before the data");
}

template <class T, ExchangesMessages C>
[[nodiscard]] Result<> swap_parts(C& comm, T const* in, std::span<std::int64_t const> send_counts, T* out,
                                  std::span<std::int64_t const> receive_counts) {
    PartPlaces const sent(send_counts);
    PartPlaces const received(receive_counts);
    auto const rank = comm.rank();
    List<std::int64_t> announced(send_counts.size());
    Exchange counts;
    Exchange data;
    for (std::int32_t peer = 0; peer < comm.size(); ++peer) {
        if (peer == rank) continue;
        counts.send(peer, &send_counts[rank_index(peer)], 1);
        counts.receive(peer, &announced[rank_index(peer)], 1);
        data.send(peer, in + sent.begin(peer), sent.count(peer));
        data.receive(peer, out + received.begin(peer), received.count(peer));
    }
    announced[rank_index(rank)] = send_counts[rank_index(rank)];
    // What describes the call is no traffic.
    if (!counts.in.empty()) {
        auto const done = comm.exchange(std::span<Outgoing const>{counts.out.data(), counts.out.size()},
                                        std::span<Incoming const>{counts.in.data(), counts.in.size()});
        if (!done) return done;
    }
    for (std::int32_t peer = 0; peer < comm.size(); ++peer) {
        auto const count = announced[rank_index(peer)];
        if (count != received.count(peer))
            return comm.fail(part_mismatch(names_of_ranks(comm), dtype_of<T>, peer, count, rank, received.count(peer)));
    }
    if (sent.count(rank) > 0) {
        std::memcpy(out + received.begin(rank), in + sent.begin(rank),
                    static_cast<std::size_t>(sent.count(rank)) * sizeof(T));
    }
    return data.run(comm);
}

template <class T, SharesMemory C>
[[nodiscard]] Result<> swap_in_steps(C& comm, CollectiveCall const& call, T const* in,
                                     std::span<std::int64_t const> send_counts, T* out,
                                     std::span<std::int64_t const> receive_counts) {
    auto const ranks = send_counts.size();
    auto const rank = static_cast<std::size_t>(comm.rank());
    std::int64_t sent = 0;
    for (auto const count : send_counts) sent += count;
    struct Source {
        std::int64_t length = 0;  // of the source's stream
        std::int64_t begin = 0;   // of the part for this rank, in that stream
        std::int64_t count = 0;   // of that part's elements
        std::int64_t place = 0;   // of that part in `out`
    };
    List<Source> sources(ranks);
    // Counts first: they say where in each rank's stream the part for this rank lies, and how many steps follow.
    comm.begin(call);
    auto const most = comm.chunk_bytes() / sizeof(std::int64_t);
    for (std::size_t first = 0; first < ranks; first += most) {
        auto const last = std::min(first + most, ranks);
        auto const bytes = (last - first) * sizeof(std::int64_t);
        comm.put(comm.mine(bytes), &send_counts[first], bytes);
        if (auto const stepped = comm.step(); !stepped) return stepped;
        for (std::size_t from = 0; from < ranks; ++from) {
            auto& source = sources[from];
            for (auto to = first; to < last; ++to) {
                auto count = send_counts[to];
                if (from != rank) {
                    auto const* const theirs = comm.theirs(static_cast<std::int32_t>(from));
                    std::memcpy(&count, theirs + (to - first) * sizeof count, sizeof count);
                }
                if (to < rank) source.begin += count;
                if (to == rank) source.count = count;
                source.length += count;
            }
        }
    }
    std::int64_t longest = 0;
    std::int64_t place = 0;
    for (std::size_t from = 0; from < ranks; ++from) {
        auto& source = sources[from];
        if (source.count != receive_counts[from]) {
            return comm.fail(part_mismatch(names_of_ranks(comm), dtype_of<T>, static_cast<std::int32_t>(from),
                                           source.count, comm.rank(), receive_counts[from]));
        }
        source.place = place;
        place += source.count;
        longest = std::max(longest, source.length);
    }
    auto const chunk = static_cast<std::int64_t>(comm.chunk_bytes() / sizeof(T));
    std::int64_t taken = 0;
    for (std::int64_t begin = 0; begin < longest; begin += chunk) {
        auto const bytes_of = [&](std::int64_t length) {
            return static_cast<std::size_t>(std::clamp(length - begin, std::int64_t{0}, chunk)) * sizeof(T);
        };
        comm.put(comm.mine(bytes_of(longest)), in + begin, bytes_of(sent));
        if (auto const stepped = comm.step(); !stepped) return stepped;
        for (std::size_t from = 0; from < ranks; ++from) {
            auto const first = std::max(begin, sources[from].begin);
            auto const last = std::min(begin + chunk, sources[from].begin + receive_counts[from]);
            if (first >= last) continue;
            auto const bytes = static_cast<std::size_t>(last - first) * sizeof(T);
            auto* const target = out + sources[from].place + (first - sources[from].begin);
            if (from == rank) {
                std::memcpy(target, in + first, bytes);
                continue;
            }
            taken += static_cast<std::int64_t>(bytes);
            auto const* const source = comm.theirs(static_cast<std::int32_t>(from));
            std::memcpy(target, source + static_cast<std::size_t>(first - begin) * sizeof(T), bytes);
        }
    }
    comm.took(taken > 0 ? 1 : 0, taken);
    return {};
}

}  // namespace detail

/// Gives each rank its part of every rank's data: what rank r holds for rank s arrives at s, ordered by r.
///
/// Shapes  in [sum of send_counts], out [sum of receive_counts]; receive_counts[r] equals r's send_counts for this rank
/// Memory  lists as long as the group has ranks; `in` and `out` do not overlap
/// Errors  shape_mismatch where counts and views of this rank disagree; collective_mismatch where ranks disagree about what
///         they exchange; rank_lost, deadline_exceeded
template <class T, Communicator C>
[[nodiscard]] Result<> all_to_all(C& comm, TensorView<T const, 1, Host> in, std::span<std::int64_t const> send_counts,
                                  TensorView<T, 1, Host> out, std::span<std::int64_t const> receive_counts) {
    if (auto const known = check_views("all_to_all", in, out); !known) return known;
    auto const ranks = static_cast<std::size_t>(comm.size());
    auto const sent = detail::sum_of_counts(send_counts);
    auto const received = detail::sum_of_counts(receive_counts);
    if (send_counts.size() != ranks || receive_counts.size() != ranks || in.elements() != sent ||
        out.elements() != received) {
        return Error{ErrorCode::shape_mismatch}
            .in("all_to_all")
            .because("counts, input and output do not agree")
            .got(in.elements())
            .expected(sent)
            .fix("give one count per rank for each direction");
    }
    CollectiveCall const call{CollectiveKind::all_to_all, dtype_of<T>, ReduceOp::sum, -1, 0};
    if constexpr (HoldsCommunicator<C>) {
        return comm.visit([&](auto& one) { return all_to_all(one, in, send_counts, out, receive_counts); });
    } else if constexpr (ExchangesMessages<C>) {
        if (auto const agreed = comm.agree(call); !agreed) return agreed;
        return detail::swap_parts(comm, in.data(), send_counts, out.data(), receive_counts);
    } else {
        return detail::swap_in_steps(comm, call, in.data(), send_counts, out.data(), receive_counts);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
