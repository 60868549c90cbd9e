// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// A barrier before which all ranks say what they meet for, and at which it is compared.
template <Communicator C>
[[nodiscard]] Result<> meet(C& comm, CollectiveCall const& call) {
    if constexpr (HoldsCommunicator<C>) {
        return comm.visit([&](auto& one) { return meet(one, call); });
    } else if constexpr (ExchangesMessages<C>) {
        return comm.agree(call);
    } else {
        comm.begin(call);
        return comm.step();
    }
}

}  // namespace detail

/// Returns when every rank of the group has called it.
///
/// Errors  collective_mismatch, rank_lost, deadline_exceeded with the missing ranks
template <Communicator C>
[[nodiscard]] Result<> barrier(C& comm) {
    return detail::meet(comm, {});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
