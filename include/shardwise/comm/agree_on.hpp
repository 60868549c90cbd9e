// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/rank_names.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// An error with the rank that it came up on, but on rank 0 of all; errors about ranks name theirs already. `names` are those of a
/// part that was split off.
[[nodiscard]] inline Error name_rank(Error error, std::int32_t rank, detail::RankNames const& names = {}) {
    bool const is_named = error.code() == ErrorCode::rank_lost || error.code() == ErrorCode::deadline_exceeded ||
                          error.code() == ErrorCode::collective_mismatch || error.subject().substr(0, 5) == "rank ";
    if (is_named || names.in_whole(rank) == 0) return error;
    auto const name = names.name(rank);
    return error.in(error.subject().empty() ? name : name + ": " + std::string(error.subject()));
}

/// Ends the group with what came up on this rank alone, where the others would wait for it: the error that it has failed with then.
template <Communicator C>
[[nodiscard]] Error end_group(C& comm, Error const& error) {
    auto const named = comm.size() > 1 ? name_rank(error, comm.rank(), detail::names_of_ranks(comm)) : error;
    auto const failed = comm.fail(named);
    return failed ? named : failed.error();
}

/// Lets all ranks know how a piece of work ended that each did by itself. Where it failed on some, the error of the
/// first of them, by number, is everybody's, and the group has failed.
///
/// Errors  the first failing rank's, with its number; rank_lost, deadline_exceeded
template <Communicator C>
[[nodiscard]] Result<> agree_on(C& comm, Result<> const& mine) {
    if (comm.size() == 1) return mine;
    std::int32_t first = mine ? comm.size() : comm.rank();
    if (auto const done = all_reduce(comm, TensorView<std::int32_t, 1, Host>(&first, {1}), ReduceOp::min); !done)
        return done;
    if (first == comm.size()) return {};
    if (first == comm.rank()) return comm.fail(name_rank(mine.error(), first, detail::names_of_ranks(comm)));
    return barrier(comm);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
