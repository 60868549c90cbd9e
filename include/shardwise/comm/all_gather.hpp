// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/counts_mismatch.hpp>
#include <shardwise/comm/detail/message_collectives.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

template <class T, SharesMemory C>
[[nodiscard]] Result<> gather_in_steps(C& comm, CollectiveCall const& call, T const* in, T* out,
                                       std::span<std::int64_t const> counts, std::int64_t longest) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    auto const chunk = static_cast<std::int64_t>(comm.chunk_bytes() / sizeof(T));
    auto const bytes_of = [&](std::int64_t count, std::int64_t begin) {
        return static_cast<std::size_t>(std::clamp(count - begin, std::int64_t{0}, chunk)) * sizeof(T);
    };
    begin_with_counts(comm, call, counts);
    std::int64_t taken = 0;
    for (std::int64_t begin = 0; begin < longest || begin == 0; begin += chunk) {
        comm.put(comm.mine(bytes_of(longest, begin)), in + begin, bytes_of(counts[rank], begin));
        if (auto const stepped = comm.step(); !stepped) return stepped;
        std::int64_t place = 0;
        for (std::size_t peer = 0; peer < counts.size(); ++peer) {
            auto const bytes = bytes_of(counts[peer], begin);
            auto* const target = out + place + begin;
            place += counts[peer];
            if (bytes == 0) continue;
            if (peer != rank) {
                std::memcpy(target, comm.theirs(static_cast<std::int32_t>(peer)), bytes);
                taken += static_cast<std::int64_t>(bytes);
            } else if (target != in + begin) {
                std::memmove(target, in + begin, bytes);
            }
        }
    }
    comm.took(taken > 0 ? 1 : 0, taken);
    return {};
}

}  // namespace detail

/// Gives every rank the parts of all ranks, one after another; parts may differ in size.
///
/// Shapes  in [counts[rank]], out [sum of counts]; `counts` is the same on all ranks
/// Memory  allocates nothing; `in` may lie at its place in `out`
/// Errors  shape_mismatch where counts, in and out disagree; collective_mismatch, rank_lost, deadline_exceeded
template <class T, Communicator C>
[[nodiscard]] Result<> all_gather(C& comm, TensorView<T const, 1, Host> in, TensorView<T, 1, Host> out,
                                  std::span<std::int64_t const> counts) {
    if (auto const known = check_views("all_gather", in, out); !known) return known;
    auto const total = detail::sum_of_counts(counts);
    std::int64_t longest = 0;
    for (auto const count : counts) longest = std::max(longest, count);
    auto const ranks = static_cast<std::size_t>(comm.size());
    auto const rank = static_cast<std::size_t>(comm.rank());
    if (counts.size() != ranks || in.elements() != counts[rank] || out.elements() != total) {
        return Error{ErrorCode::shape_mismatch}
            .in("all_gather")
            .because("counts, input and output do not agree")
            .got(out.elements())
            .expected(total)
            .fix("give one count per rank; the output holds their sum");
    }
    CollectiveCall const call{CollectiveKind::all_gather, dtype_of<T>, ReduceOp::sum, -1, total,
                              fingerprint_of(counts)};
    if constexpr (HoldsCommunicator<C>) {
        return comm.visit([&](auto& one) { return all_gather(one, in, out, counts); });
    } else if constexpr (ExchangesMessages<C>) {
        if (auto const agreed = detail::agree_with_counts(comm, call, counts); !agreed) return agreed;
        return detail::gather_parts<T>(comm, in.data(), out.data(), detail::PartPlaces(counts));
    } else {
        return detail::gather_in_steps<T>(comm, call, in.data(), out.data(), counts, longest);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
