// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/fault_record.hpp>
#include <shardwise/core/result.hpp>

#include <atomic>
#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a record says, as an error; success where it says nothing.
[[nodiscard]] inline Result<> fault_result(FaultRecord& record) {
    auto const kind = static_cast<FaultKind>(std::atomic_ref(record.kind).load(std::memory_order_acquire));
    if (kind == FaultKind::none) return {};
    auto const place = "rank " + std::to_string(record.rank);
    auto const start = [&](ErrorCode code) { return Error{code}.in("all_reduce").at(place); };
    switch (kind) {
        case FaultKind::call_differs:
            return start(ErrorCode::collective_mismatch)
                .because("asks for another number of bytes or another dtype")
                .got(static_cast<std::int64_t>(record.got))
                .expected(static_cast<std::int64_t>(record.expected))
                .fix("call it with the same count and dtype on every rank");
        case FaultKind::peer_gave_up:
            return start(ErrorCode::rank_lost)
                .because("gave up before this rank arrived, and the group is over")
                .fix("make a new group");
        case FaultKind::none:
        case FaultKind::rank_missing:
            break;
    }
    return start(ErrorCode::deadline_exceeded)
        .because("did not arrive before the group's limit, and the group is over")
        .fix("look for the failure of that rank, then make a new group");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
