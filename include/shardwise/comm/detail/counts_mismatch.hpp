// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/detail/call_mismatch.hpp>
#include <shardwise/comm/detail/rank_names.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The sum of counts; -1, which is the length of nothing, where one of them is negative.
[[nodiscard]] constexpr std::int64_t sum_of_counts(std::span<std::int64_t const> counts) {
    std::int64_t sum = 0;
    for (auto const count : counts) {
        if (count < 0) return -1;
        sum += count;
    }
    return sum;
}

/// True where the calls of all ranks distribute elements by lists of counts and differ in nothing else than these. All ranks see the
/// same calls, so that all of them may then show their lists.
[[nodiscard]] inline bool differ_in_counts_alone(std::span<NumberedCall const> calls) {
    auto const without_counts = [](NumberedCall each) {
        each.call.count = 0;
        each.call.parts = 0;
        return each;
    };
    return std::all_of(calls.begin(), calls.end(), [&](NumberedCall const& each) {
        return each.call.parts != 0 && without_counts(each) == without_counts(calls[0]);
    });
}

/// The first part whose count differs, and the first rank that gives another one for it than rank 0: the same words on every rank.
///
/// Shapes  calls [ranks], counts [ranks, parts]
[[nodiscard]] inline Error counts_mismatch(RankNames const& names, std::span<NumberedCall const> calls,
                                           std::span<std::int64_t const> counts) {
    auto const ranks = calls.size();
    auto const text = [&](std::size_t rank, std::size_t part) {
        auto call = calls[rank].call;
        call.parts = 0;
        return "call " + std::to_string(calls[rank].number) + ", " + to_text(call) + ", with " +
               std::to_string(counts[rank * ranks + part]) + " for rank " + std::to_string(part);
    };
    for (std::size_t part = 0; part < ranks; ++part) {
        for (std::size_t rank = 1; rank < ranks; ++rank) {
            if (counts[rank * ranks + part] == counts[part]) continue;
            return Error{ErrorCode::collective_mismatch}
                .in("ranks " + names.number(0) + " and " + names.number(static_cast<std::int32_t>(rank)))
                .because("differ: rank 0 is at " + text(0, part) + "; rank " + std::to_string(rank) + " at " +
                         text(rank, part))
                .fix("let all ranks give the same counts");
        }
    }
    return call_mismatch(names, 0, calls[0], static_cast<std::int32_t>(ranks - 1), calls[ranks - 1]);
}

/// The lists of all ranks, by steps over the memory that they share.
///
/// Shapes  counts [ranks], result [ranks, ranks]
/// Errors  as a step
template <class Rank>
[[nodiscard]] Result<std::vector<std::int64_t>> counts_of_all(Rank& rank, std::span<std::int64_t const> counts) {
    auto const ranks = counts.size();
    auto const most = rank.chunk_bytes() / sizeof(std::int64_t);
    std::vector<std::int64_t> all(ranks * ranks);
    for (std::size_t begin = 0; begin < ranks; begin += most) {
        auto const bytes = std::min(most, ranks - begin) * sizeof(std::int64_t);
        rank.put(rank.mine(bytes), &counts[begin], bytes);
        if (auto const stepped = rank.step(); !stepped) return stepped.error();
        for (std::size_t peer = 0; peer < ranks; ++peer) {
            auto const number = static_cast<std::int32_t>(peer);
            bool const is_own = number == rank.rank();
            std::memcpy(&all[peer * ranks + begin],
                        is_own ? static_cast<void const*>(&counts[begin]) : rank.theirs(number), bytes);
        }
    }
    return all;
}

/// Begins a collective that distributes elements by counts: a communicator that takes them names one that differs.
template <class C, class Call>
void begin_with_counts(C& comm, Call const& call, std::span<std::int64_t const> counts) {
    if constexpr (requires { comm.begin(call, counts); })
        comm.begin(call, counts);
    else
        comm.begin(call);
}
template <class C, class Call>
[[nodiscard]] Result<> agree_with_counts(C& comm, Call const& call, std::span<std::int64_t const> counts) {
    if constexpr (requires { comm.agree(call, counts); })
        return comm.agree(call, counts);
    else
        return comm.agree(call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
