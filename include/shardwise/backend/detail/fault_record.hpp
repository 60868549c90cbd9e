// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a kernel found wrong in mid-flight.
enum class FaultKind : std::uint32_t {
    none,
    rank_missing,  // a rank did not arrive before the limit
    call_differs,  // a rank arrived with another count or dtype
    peer_gave_up,  // a rank found one of these and told the others
};

/// Which collective a kernel is.
enum class PeerCall : std::uint32_t { all_reduce, all_gather, reduce_scatter, all_to_all };

/// A kernel's report to the host, in host memory that the device writes. `kind` is written last.
struct FaultRecord {
    static constexpr std::int32_t max_ranks = 8;

    std::uint32_t kind;
    PeerCall call;
    std::int32_t rank;
    std::uint64_t got;
    std::uint64_t expected;
    /// By the host: what each rank is called among all, less its number in the group.
    std::int32_t further[max_ranks];
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
