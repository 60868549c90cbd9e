// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/fault_record.hpp>
#include <shardwise/core/result.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

[[nodiscard]] constexpr std::string_view name_of(PeerCall call) {
    switch (call) {
        case PeerCall::all_gather:
            return "all_gather";
        case PeerCall::reduce_scatter:
            return "reduce_scatter";
        case PeerCall::all_to_all:
            return "all_to_all";
        case PeerCall::all_reduce:
            break;
    }
    return "all_reduce";
}

/// What a record says, as an error; success where it says nothing.
[[nodiscard]] inline Result<> fault_result(FaultRecord& record) {
    auto const kind = static_cast<FaultKind>(std::atomic_ref(record.kind).load(std::memory_order_acquire));
    if (kind == FaultKind::none) return {};
    auto const name = [&](std::int32_t rank) {
        auto const further = record.further[rank];
        return "rank " + std::to_string(rank) +
               (further == 0 ? "" : " (of all: rank " + std::to_string(rank + further) + ")");
    };
    auto const start = [&](ErrorCode code) { return Error{code}.in(name_of(record.call)).at(name(record.rank)); };
    switch (kind) {
        case FaultKind::call_differs:
            return start(ErrorCode::collective_mismatch)
                .because("asks for another number of bytes or another dtype")
                .got(static_cast<std::int64_t>(record.got))
                .expected(static_cast<std::int64_t>(record.expected))
                .fix("call it with the same count and dtype on every rank");
        case FaultKind::peer_gave_up:
            if (auto const missing = missing_rank(kind, record.rank, record.got); missing >= 0) {
                return Error{ErrorCode::rank_lost}
                    .in(name_of(record.call))
                    .at(name(missing))
                    .because("did not arrive before the limit of " + name(record.rank) + ", and the group is over")
                    .fix("look for the failure of that rank, then make a new group");
            }
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
