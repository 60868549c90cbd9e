// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/fault_record.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What the peers of a group see of a rank, at the start of its shared memory; its staging halves follow. Words that
/// different ranks or blocks write lie on lines of their own.
struct PeerMemory {
    static constexpr std::int32_t max_ranks = 16;
    static constexpr std::int32_t max_blocks = 64;
    static constexpr std::int64_t line = 128;

    /// The last step that this rank has ended; its own kernels write it.
    std::uint32_t step;
    /// Blocks that have ended the step that runs.
    std::uint32_t finished;
    /// Not zero once this rank has failed: the group is over.
    std::uint32_t failed;
    alignas(line) std::uint32_t told_of_failure;               // by a peer that gave up: a ToldFailure
    alignas(line) std::uint32_t flags[max_blocks][max_ranks];  // [block][rank that tells]
    alignas(line) std::uint64_t calls[2][max_blocks];          // [half][block]: bytes and dtype of the call
};

/// A collective of one rank as its kernel takes it; for an all-reduce all that there is.
struct AllReduceCall {
    PeerMemory* peers[PeerMemory::max_ranks];
    std::int32_t rank;
    std::int32_t ranks;
    void const* in;
    void* out;
    std::int64_t count;
    /// Bytes of a staging half.
    std::int64_t half_bytes;
    FaultRecord* fault;
    /// How long to wait for a peer, by the device's constant clock.
    std::int64_t limit_ticks;
    /// What must be the same on all ranks.
    std::uint64_t identity;
    std::int32_t blocks;
    PeerCall kind;
};

/// A collective in which ranks hand out or take parts of unequal lengths. A staging half is cut into as many slots as a rank hands out
/// parts, `slot` elements each, of which a call moves one piece.
struct PeerPartsCall {
    AllReduceCall base;
    std::int64_t slot;
    /// Elements that go to each rank; of an all_gather the first: to all.
    std::int64_t sent[PeerMemory::max_ranks];
    std::int64_t sent_at[PeerMemory::max_ranks];
    /// Elements that come from each rank; of a reduce_scatter the first: from each.
    std::int64_t received[PeerMemory::max_ranks];
    std::int64_t received_at[PeerMemory::max_ranks];
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
