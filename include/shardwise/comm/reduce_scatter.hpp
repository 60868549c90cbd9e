// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/counts_mismatch.hpp>
#include <shardwise/comm/detail/message_collectives.hpp>
#include <shardwise/comm/detail/reduce.hpp>
#include <shardwise/core/check_views.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

template <class T, SharesMemory C>
[[nodiscard]] Result<> scatter_in_steps(C& comm, CollectiveCall const& call, T const* in, T* out,
                                        std::span<std::int64_t const> counts) {
    begin_with_counts(comm, call, counts);
    auto const rank = static_cast<std::size_t>(comm.rank());
    std::int64_t own_begin = 0;
    for (std::size_t peer = 0; peer < rank; ++peer) own_begin += counts[peer];
    auto const own_end = own_begin + counts[rank];
    auto const total = call.count;
    auto const chunk = static_cast<std::int64_t>(comm.chunk_bytes() / sizeof(T));
    for (std::int64_t begin = 0; begin < total || begin == 0; begin += chunk) {
        auto const bytes = static_cast<std::size_t>(std::min(chunk, total - begin)) * sizeof(T);
        comm.put(comm.mine(bytes), in + begin, bytes);
        if (auto const stepped = comm.step(); !stepped) return stepped;
        auto const first = std::max(begin, own_begin);
        auto const last = std::min(begin + chunk, own_end);
        if (first >= last) continue;
        reduce_ranks(
            out + (first - own_begin), in + first, last - first, comm.rank(), comm.size(), call.op,
            [&](std::int32_t peer) { return reinterpret_cast<T const*>(comm.theirs(peer)) + (first - begin); });
    }
    auto const taken = counts[rank] * (comm.size() - 1) * static_cast<std::int64_t>(sizeof(T));
    comm.took(taken > 0 ? 1 : 0, taken);
    return {};
}

}  // namespace detail

/// Gives each rank its part of the sum over all ranks, added in the order of the ranks; parts may differ in size.
///
/// Shapes  in [sum of counts], out [counts[rank]]; `counts` is the same on all ranks
/// Memory  allocates nothing; `out` may lie at its place in `in`, which keeps nothing of use else
/// Errors  shape_mismatch where counts, in and out disagree; collective_mismatch, rank_lost, deadline_exceeded
template <class T, Communicator C>
[[nodiscard]] Result<> reduce_scatter(C& comm, TensorView<T const, 1, Host> in, TensorView<T, 1, Host> out,
                                      std::span<std::int64_t const> counts, ReduceOp op = ReduceOp::sum) {
    if (auto const known = check_views("reduce_scatter", in, out); !known) return known;
    auto const total = detail::sum_of_counts(counts);
    auto const ranks = static_cast<std::size_t>(comm.size());
    auto const rank = static_cast<std::size_t>(comm.rank());
    if (counts.size() != ranks || out.elements() != counts[rank] || in.elements() != total) {
        return Error{ErrorCode::shape_mismatch}
            .in("reduce_scatter")
            .because("counts, input and output do not agree")
            .got(in.elements())
            .expected(total)
            .fix("give one count per rank; the input holds their sum");
    }
    CollectiveCall const call{CollectiveKind::reduce_scatter, dtype_of<T>, op, -1, total, fingerprint_of(counts)};
    if constexpr (HoldsCommunicator<C>) {
        return comm.visit([&](auto& one) { return reduce_scatter(one, in, out, counts, op); });
    } else if constexpr (ExchangesMessages<C>) {
        if (auto const agreed = detail::agree_with_counts(comm, call, counts); !agreed) return agreed;
        return detail::reduce_parts(comm, in.data(), out.data(), detail::PartPlaces(counts), op);
    } else {
        return detail::scatter_in_steps(comm, call, in.data(), out.data(), counts);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
