#pragma once

#include <shardwise/comm/communicator.hpp>

namespace shardwise::inline v0_2_0 {

/// Returns when every rank of the group has called it.
///
/// Errors  collective_mismatch, rank_lost, deadline_exceeded with the missing ranks
template <Communicator C>
[[nodiscard]] Result<> barrier(C& comm) {
    if constexpr (HoldsCommunicator<C>) {
        return comm.visit([&](auto& one) { return barrier(one); });
    } else if constexpr (ExchangesMessages<C>) {
        return comm.agree({});
    } else {
        comm.begin({});
        return comm.step();
    }
}

}  // namespace shardwise::inline v0_2_0
