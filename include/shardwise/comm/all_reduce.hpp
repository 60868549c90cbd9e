#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/reduce.hpp>
#include <shardwise/core/split.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline v0_2_0 {

namespace detail {

/// Up to this size every rank reduces everything itself: one wait instead of two.
inline constexpr std::size_t one_shot_bytes = 64 * 1024;

/// Of a chunk that all ranks published: each reduces its part, publishes it, and everyone takes all parts.
template <class T, SharesMemory C>
[[nodiscard]] Result<> reduce_in_two_shots(C& comm, T* data, std::int64_t count, ReduceOp op) {
    auto const own = split_units(count, comm.size(), comm.rank());
    auto const offset = static_cast<std::size_t>(own.begin) * sizeof(T);
    reduce_sources(data + own.begin, own.size(), comm.size(), op,
                   [&](std::int32_t rank) { return comm.theirs(rank) + offset; });
    std::memcpy(comm.mine(), data + own.begin, static_cast<std::size_t>(own.size()) * sizeof(T));
    if (auto const stepped = comm.step(); !stepped) return stepped;
    for (std::int32_t rank = 0; rank < comm.size(); ++rank) {
        auto const part = split_units(count, comm.size(), rank);
        if (rank != comm.rank()) {
            std::memcpy(data + part.begin, comm.theirs(rank), static_cast<std::size_t>(part.size()) * sizeof(T));
        }
    }
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
    auto const count = data.elements();
    comm.begin({CollectiveKind::all_reduce, dtype_of<T>, op, -1, count});
    auto const chunk = static_cast<std::int64_t>(comm.chunk_bytes() / sizeof(T));
    for (std::int64_t begin = 0; begin < count || begin == 0; begin += chunk) {
        auto const size = std::min(chunk, count - begin);
        auto const bytes = static_cast<std::size_t>(size) * sizeof(T);
        auto* const part = data.data() + begin;
        if (bytes > 0) std::memcpy(comm.mine(), part, bytes);
        if (auto const stepped = comm.step(); !stepped) return stepped;
        if (bytes <= detail::one_shot_bytes || comm.size() == 1) {
            detail::reduce_sources(part, size, comm.size(), op, [&](std::int32_t rank) { return comm.theirs(rank); });
        } else if (auto const reduced = detail::reduce_in_two_shots(comm, part, size, op); !reduced) {
            return reduced;
        }
    }
    return {};
}

}  // namespace shardwise::inline v0_2_0
