// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/message_collectives.hpp>
#include <shardwise/comm/detail/reduce.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/op/collective_load.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Longer data of two ranks go piece by piece, so that the caches hold what is handed over.
///
/// Source  bench/results/2026-11-27-levels-zen5.md: of pieces of 64, 128 and 256 KB the fastest, whatever the cores share
inline constexpr std::size_t all_reduce_piece_bytes = 256 * 1024;
/// The same where two shots take two waits for each piece, unless one loan of the staging memory takes it all.
///
/// Source  bench/bench_all_reduce.cpp
inline constexpr std::size_t two_shot_piece_bytes = 1024 * 1024;

/// Every rank publishes all it has and reduces what all published.
template <class T, SharesMemory C>
[[nodiscard]] Result<> reduce_in_one_shot(C& comm, T* data, std::int64_t count, ReduceOp op, std::int64_t& taken) {
    auto const bytes = static_cast<std::size_t>(count) * sizeof(T);
    comm.put(comm.mine(bytes), data, bytes);
    if (auto const stepped = comm.step(); !stepped) return stepped;
    taken += static_cast<std::int64_t>(bytes) * (comm.size() - 1);
    reduce_ranks(data, data, count, comm.rank(), comm.size(), op,
                 [&](std::int32_t rank) { return reinterpret_cast<T const*>(comm.theirs(rank)); });
    return {};
}

/// Two ranks publish their data piece by piece. A line of the other's piece is summed and at once replaced by what this rank
/// publishes next: in pieces of 64 KB, 256 KB take 10.3 microseconds, and 11.9 where a piece is written after the sums of the one
/// before.
///
/// Source  bench/results/2026-11-23-kernels-epyc.md
template <class T, SharesMemory C>
[[nodiscard]] Result<> reduce_in_pieces(C& comm, T* data, std::int64_t count, std::int64_t piece, ReduceOp op) {
    auto const bytes_of = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
    auto size = std::min(piece, count);
    auto left = count - size;
    comm.put(comm.mine(bytes_of(size)), data, bytes_of(size));
    while (true) {
        if (auto const stepped = comm.step(); !stepped) return stepped;
        auto const* const theirs = reinterpret_cast<T const*>(comm.theirs(1 - comm.rank()));
        auto const next = std::min(piece, left);
        auto* const mine = next > 0 ? reinterpret_cast<T*>(comm.mine(bytes_of(next))) : nullptr;
        // A last piece of a few bytes lies elsewhere.
        auto const replaced = mine == theirs ? next : 0;
        reduce_and_replace(data, mine, data + size, replaced, comm.rank(), op);
        reduce_ranks(data + replaced, data + replaced, size - replaced, comm.rank(), 2, op,
                     [&](std::int32_t) { return theirs + replaced; });
        if (next == 0) return {};
        if (replaced == 0) comm.put(reinterpret_cast<std::byte*>(mine), data + size, bytes_of(next));
        data += size;
        size = next;
        left -= next;
    }
}

/// Every rank lends all it has; each reduces its part of what all lent and gives the results back to all.
template <class T, SharesMemory C>
[[nodiscard]] Result<> reduce_in_two_shots(C& comm, T* data, std::int64_t count, ReduceOp op, std::int64_t& taken) {
    auto const bytes_of = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
    auto const ranks = comm.size();
    auto const own = split_units(count, ranks, comm.rank());
    auto const lent = comm.lend();
    if (!lent) return lent.error();
    // Nobody else reads this rank's own part.
    comm.put(*lent, data, bytes_of(own.begin));
    comm.put(*lent + bytes_of(own.end), data + own.end, bytes_of(count - own.end));
    if (auto const stepped = comm.step(); !stepped) return stepped;
    replace_by_reduced<T>(own.size(), ranks, op, [&](std::int32_t rank) {
        return (rank == comm.rank() ? data : reinterpret_cast<T*>(comm.lent(rank))) + own.begin;
    });
    if (auto const stepped = comm.step(); !stepped) return stepped;
    taken += static_cast<std::int64_t>(bytes_of(own.size() * (ranks - 1) + count - own.size()));
    if (own.begin > 0) std::memcpy(data, *lent, bytes_of(own.begin));
    if (own.end < count) std::memcpy(data + own.end, *lent + bytes_of(own.end), bytes_of(count - own.end));
    return {};
}

template <class T, SharesMemory C>
[[nodiscard]] Result<> reduce_in_steps(C& comm, CollectiveCall const& call, T* data, std::int64_t count, ReduceOp op) {
    comm.begin(call);
    auto const ranks = comm.size();
    if (ranks == 1) return comm.step();
    auto const bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (ranks == 2) {
        auto const piece = static_cast<std::int64_t>(std::min(comm.chunk_bytes(), all_reduce_piece_bytes) / sizeof(T));
        if (auto const reduced = reduce_in_pieces(comm, data, count, piece, op); !reduced) return reduced;
        comm.took(count > 0 ? 1 : 0, static_cast<std::int64_t>(bytes));
        return {};
    }
    bool const is_one_shot = is_summed_directly(static_cast<double>(bytes), ranks);
    auto const piece_bytes = is_one_shot                  ? comm.chunk_bytes()
                             : bytes <= comm.lent_bytes() ? bytes
                                                          : std::min(comm.lent_bytes(), two_shot_piece_bytes);
    auto const most = static_cast<std::int64_t>(piece_bytes / sizeof(T));
    // Only the last piece may have parts of unequal length.
    auto const piece = most < count && most > ranks ? most - most % ranks : most;
    if constexpr (requires { comm.begin_stores(bytes); }) comm.begin_stores(bytes);
    std::int64_t taken = 0;
    for (std::int64_t begin = 0; begin < count || begin == 0; begin += piece) {
        auto const size = std::min(piece, count - begin);
        auto const reduced = is_one_shot ? reduce_in_one_shot(comm, data + begin, size, op, taken)
                                         : reduce_in_two_shots(comm, data + begin, size, op, taken);
        if (!reduced) return reduced;
    }
    if constexpr (requires { comm.end_stores(); }) comm.end_stores();
    comm.took(taken == 0 ? 0 : is_one_shot ? 1 : 2, taken);
    return {};
}

}  // namespace detail

/// Replaces `data` on every rank by the sum (or maximum, minimum) over all ranks, added in the order of the ranks: all ranks
/// get the same bits.
///
/// Shapes  data [n], the same n on all ranks, which may be 0
/// Memory  allocates nothing; the group's staging memory holds the copies
/// Errors  collective_mismatch, rank_lost, deadline_exceeded; then the group has failed and `data` holds no result
template <class T, Communicator C>
[[nodiscard]] Result<> all_reduce(C& comm, TensorView<T, 1, Host> data, ReduceOp op = ReduceOp::sum) {
    if (auto const known = check_views("all_reduce", data); !known) return known;
    auto const count = data.elements();
    CollectiveCall const call{CollectiveKind::all_reduce, dtype_of<T>, op, -1, count};
    if constexpr (HoldsCommunicator<C>) {
        return comm.visit([&](auto& one) { return all_reduce(one, data, op); });
    } else if constexpr (ExchangesMessages<C>) {
        if (auto const agreed = comm.agree(call); !agreed) return agreed;
        return detail::reduce_for_all(comm, data.data(), count, op);
    } else {
        return detail::reduce_in_steps(comm, call, data.data(), count, op);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
