// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/all_reduce.cuh>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The lengths and places of a call's parts, where every thread may index them.
struct PeerParts {
    std::int64_t sent[PeerMemory::max_ranks];
    std::int64_t sent_at[PeerMemory::max_ranks];
    std::int64_t received[PeerMemory::max_ranks];
    std::int64_t received_at[PeerMemory::max_ranks];
};

/// A block of a rank's kernel that hands out parts: what goes to rank r lies in slot r of the sender's half, of an all_gather in its only
/// slot. A pack of a slot is written and read by the same block on every rank, as the protocol wants it.
template <class Api, class T, PeerCall kind>
class PeerPartsBlock : public PeerBlock<Api, T> {
    using Base = PeerBlock<Api, T>;
    using Base::elements;

public:
    __device__ PeerPartsBlock(PeerPartsCall const& call, PeerMemory* const* peers, PeerParts const& parts)
        : Base(call.base, peers), call_(call), parts_(parts) {}

    __device__ void write(std::uint32_t half) {
        this->note_call(half);
        auto const* const in = static_cast<T const*>(call_.base.in);
        auto const slots = kind == PeerCall::all_gather ? 1 : call_.base.ranks;
        for (std::int32_t to = 0; to < slots; ++to)
            copy(in + parts_.sent_at[to], slot_of(call_.base.rank, half, to), parts_.sent[to]);
    }

    __device__ void read(std::uint32_t half) {
        auto* const out = static_cast<T*>(call_.base.out);
        auto const own = kind == PeerCall::all_gather ? 0 : call_.base.rank;
        if constexpr (kind == PeerCall::reduce_scatter) {
            this->sum_packs(out + parts_.received_at[0], parts_.received[0],
                            [&](std::int32_t rank) { return slot_of(rank, half, own); });
        } else {
            for (std::int32_t from = 0; from < call_.base.ranks; ++from)
                copy(slot_of(from, half, own), out + parts_.received_at[from], parts_.received[from]);
        }
    }

private:
    [[nodiscard]] __device__ T* slot_of(std::int32_t rank, std::uint32_t half, std::int32_t slot) const {
        return this->staging_of(rank, half) + slot * call_.slot;
    }

    __device__ void copy(T const* from, T* to, std::int64_t size) const {
        bool const is_aligned = is_on_pack(from) && is_on_pack(to);
        this->for_packs(size, [&](std::int64_t first, std::int64_t count) {
            if (is_aligned && count == elements) {
                store_pack(to + first, load_pack(from + first));
            } else {
                for (std::int64_t i = 0; i < count; ++i) to[first + i] = from[first + i];
            }
        });
    }

    PeerPartsCall const& call_;
    PeerParts const& parts_;
};

/// Copies the lists of a kernel's only argument, one word for each rank, to where every thread may index them.
__device__ inline void keep_lists(PeerPartsCall const& call, PeerMemory** peers, PeerParts& parts) {
#if defined(__HIP_DEVICE_COMPILE__)
    // A compiler that reads them all ahead has no scalar registers for five lists: each word is read where the arguments lie.
    auto const rank = static_cast<int>(threadIdx.x);
    if (rank >= PeerMemory::max_ranks) return;
    auto const& from = *(PeerPartsCall const*)__builtin_amdgcn_kernarg_segment_ptr();
    peers[rank] = from.base.peers[rank];
    parts.sent[rank] = from.sent[rank];
    parts.sent_at[rank] = from.sent_at[rank];
    parts.received[rank] = from.received[rank];
    parts.received_at[rank] = from.received_at[rank];
    (void)call;
#else
    // Arguments that are indexed at run time would lie in each thread's own memory.
    if (threadIdx.x != 0) return;
    SHARDWISE_DEVICE_UNROLL
    for (int rank = 0; rank < PeerMemory::max_ranks; ++rank) {
        peers[rank] = call.base.peers[rank];
        parts.sent[rank] = call.sent[rank];
        parts.sent_at[rank] = call.sent_at[rank];
        parts.received[rank] = call.received[rank];
        parts.received_at[rank] = call.received_at[rank];
    }
#endif
}

template <class Api, class T, PeerCall kind>
__global__ void __launch_bounds__(all_reduce_threads, 1) exchange_over_peers(PeerPartsCall call) {
    __shared__ PeerMemory* peers[PeerMemory::max_ranks];
    __shared__ PeerParts parts;
    keep_lists(call, peers, parts);
    __syncthreads();
    PeerPartsBlock<Api, T, kind> block(call, peers, parts);
    (void)PeerProtocol::exchange(block);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
