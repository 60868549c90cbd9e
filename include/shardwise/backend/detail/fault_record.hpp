// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a kernel found wrong in mid-flight.
enum class FaultKind : std::uint32_t {
    none,
    rank_missing,  // a rank did not arrive before the limit
    call_differs,  // a rank arrived with another count or dtype
    peer_gave_up,  // a rank found one of these and told the others; `got`: 1 + the rank that it missed, 0 where it is another reason
};

/// The rank that has not come where a record says so; -1: it is another reason.
[[nodiscard]] SHARDWISE_DEVICE inline std::int32_t missing_rank(FaultKind kind, std::int32_t rank, std::uint64_t got) {
    switch (kind) {
        case FaultKind::rank_missing:
            return rank;
        case FaultKind::peer_gave_up:
            return static_cast<std::int32_t>(got) - 1;
        case FaultKind::none:
        case FaultKind::call_differs:
            break;
    }
    return -1;
}

/// Which collective a kernel is.
enum class PeerCall : std::uint32_t { all_reduce, all_gather, reduce_scatter, all_to_all };

/// What a rank that gives up tells the others, in one word: itself, and the rank that it missed; -1: another reason.
struct ToldFailure {
    [[nodiscard]] SHARDWISE_DEVICE static std::uint32_t word(std::int32_t rank, std::int32_t missing) {
        return (static_cast<std::uint32_t>(rank) + 1U) | (static_cast<std::uint32_t>(missing + 1) << 8U);
    }
    [[nodiscard]] SHARDWISE_DEVICE static std::int32_t rank(std::uint32_t word) {
        return static_cast<std::int32_t>(word & 0xFFU) - 1;
    }
    [[nodiscard]] SHARDWISE_DEVICE static std::int32_t missing(std::uint32_t word) {
        return static_cast<std::int32_t>(word >> 8U) - 1;
    }
};

/// A kernel's report to the host, in host memory that the device writes. `kind` is written last.
struct FaultRecord {
    static constexpr std::int32_t max_ranks = 16;

    std::uint32_t kind;
    PeerCall call;
    std::int32_t rank;
    std::uint64_t got;
    std::uint64_t expected;
    /// By the host: what each rank is called among all, less its number in the group.
    std::int32_t further[max_ranks];
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
