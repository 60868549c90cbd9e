// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/detail/fault_record.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/peer_memory.hpp>
#include <shardwise/kernels/detail/peer_protocol.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int all_reduce_threads = 512;

/// A block of a rank's kernel, as PeerProtocol sees it.
template <class Api, class T>
class PeerBlock {
    using Code = DeviceCode<Api>;

protected:
    static constexpr unsigned width = pack_elements<T>;
    static constexpr std::int64_t elements = width;

public:
    /// `peers`: those of the call.
    __device__ PeerBlock(AllReduceCall const& call, PeerMemory* const* peers)
        : call_(call),
          peers_(peers),
          own_(peers[call.rank]),
          thread_(static_cast<int>(threadIdx.x)),
          block_(blockIdx.x) {}

    __device__ bool begin() {
        return is_whole([&] {
            if (thread_ != 0) return true;
            return !is_over();
        });
    }
    __device__ std::uint32_t last_step() const { return own_->step; }

    __device__ void write(std::uint32_t half) {
        note_call(half);
        auto* const staging = staging_of(call_.rank, half);
        auto const* const in = static_cast<T const*>(call_.in);
        bool const is_aligned = is_on_pack(in);
        for_packs(call_.count, [&](std::int64_t first, std::int64_t count) {
            if (is_aligned && count == elements) {
                store_pack(staging + first, load_pack(in + first));
            } else {
                for (std::int64_t i = 0; i < count; ++i) staging[first + i] = in[first + i];
            }
        });
    }

    __device__ void tell(std::uint32_t step) {
        // Every thread's writes before the flag, on any device.
        __threadfence_system();
        __syncthreads();
        if (thread_ < call_.ranks && thread_ != call_.rank) {
            Code::store_release(&peers_[thread_]->flags[block_][call_.rank], step);
        }
    }

    __device__ bool wait(std::uint32_t step) {
        return is_whole([&] {
            if (thread_ >= call_.ranks || thread_ == call_.rank) return true;
            auto const limit = Code::ticks() + call_.limit_ticks;
            auto const* const flag = &own_->flags[block_][thread_];
            while (!PeerProtocol::has_arrived(Code::load_acquire(flag), step)) {
                if (is_over()) return false;
                if (Code::ticks() > limit) return fail(FaultKind::rank_missing, thread_, 0, 0);
            }
            auto const theirs = peers_[thread_]->calls[PeerProtocol::half(step)][block_];
            return theirs == call_.identity || fail(FaultKind::call_differs, thread_, theirs, call_.identity);
        });
    }

    __device__ void read(std::uint32_t half) {
        auto* const out = static_cast<T*>(call_.out);
        sum_packs(out, call_.count, [&](std::int32_t rank) { return staging_of(rank, half); });
    }

    /// The last block to come here ends the rank's step.
    __device__ void end(std::uint32_t step) {
        __syncthreads();
        if (thread_ != 0) return;
        if (atomicAdd(&own_->finished, 1U) + 1U == static_cast<std::uint32_t>(call_.blocks)) {
            own_->finished = 0;
            own_->step = step;
        }
    }

protected:
    [[nodiscard]] __device__ T* staging_of(std::int32_t rank, std::uint32_t half) const {
        auto* const halves = reinterpret_cast<std::byte*>(peers_[rank] + 1);
        return reinterpret_cast<T*>(halves + static_cast<std::int64_t>(half) * call_.half_bytes);
    }

    /// What all ranks must agree on, for them to compare.
    __device__ void note_call(std::uint32_t half) {
        if (thread_ == 0) own_->calls[half][block_] = call_.identity;
    }

    /// out = the sum over ranks of what `of(rank)` points to, in their order.
    template <class Of>
    __device__ void sum_packs(T* out, std::int64_t size, Of const& of) {
        bool const is_aligned = is_on_pack(out);
        for_packs(size, [&](std::int64_t first, std::int64_t count) {
            Portion<T, width> portion;
            float sums[width] = {};
            for (std::int32_t rank = 0; rank < call_.ranks; ++rank) {
                float values[width];
                portion.load(of(rank) + first);
                portion.get(values);
                SHARDWISE_DEVICE_UNROLL
                for (unsigned i = 0; i < width; ++i) sums[i] = rank == 0 ? values[i] : sums[i] + values[i];
            }
            if (is_aligned && count == elements) {
                portion.set(sums);
                portion.store(out + first);
            } else {
                SHARDWISE_DEVICE_UNROLL
                for (unsigned i = 0; i < width; ++i) {
                    if (i < count) narrow(sums[i], out[first + i]);
                }
            }
        });
    }

    /// body(first element, number of elements) for the packs of 16 bytes of this thread: the same ones on every rank.
    template <class Body>
    __device__ void for_packs(std::int64_t size, Body const& body) const {
        auto const threads = static_cast<std::int64_t>(call_.blocks) * all_reduce_threads;
        auto const index = static_cast<std::int64_t>(block_) * all_reduce_threads + thread_;
        for (auto first = index * elements; first < size; first += threads * elements) {
            auto const left = size - first;
            body(first, left < elements ? left : elements);
        }
    }

private:
    /// True where the condition holds for all threads of the block.
    template <class Condition>
    __device__ bool is_whole(Condition const& condition) {
        __shared__ std::uint32_t failures;
        if (thread_ == 0) failures = 0;
        __syncthreads();
        if (!condition()) atomicAdd(&failures, 1U);
        __syncthreads();
        auto const result = failures == 0;
        __syncthreads();
        return result;
    }

    __device__ bool is_over() {
        if (Code::load_acquire(&own_->failed) != 0) return true;
        auto const told = Code::load_acquire(&own_->told_of_failure);
        if (told == 0) return false;
        // A rank that was missed itself is told so by who missed it.
        auto const missing = ToldFailure::missing(told) == call_.rank ? -1 : ToldFailure::missing(told);
        return !fail(FaultKind::peer_gave_up, ToldFailure::rank(told), static_cast<std::uint64_t>(missing + 1), 0);
    }

    /// Ends the group for this rank, and tells the others, also which rank is missing, if one is; the first reason is the one that the
    /// host reads. False.
    __device__ bool fail(FaultKind kind, std::int32_t rank, std::uint64_t got, std::uint64_t expected) {
        if (atomicCAS(&own_->failed, 0U, 1U) != 0) return false;
        call_.fault->call = call_.kind;
        call_.fault->rank = rank;
        call_.fault->got = got;
        call_.fault->expected = expected;
        __threadfence_system();
        Code::store_release(&call_.fault->kind, static_cast<std::uint32_t>(kind));
        auto const missing = missing_rank(kind, rank, got);
        for (std::int32_t peer = 0; peer < call_.ranks; ++peer) {
            if (peer == call_.rank) continue;
            Code::store_release(&peers_[peer]->told_of_failure, ToldFailure::word(call_.rank, missing));
        }
        return false;
    }

    AllReduceCall const& call_;
    PeerMemory* const* peers_;
    PeerMemory* own_;

protected:
    int thread_;

private:
    unsigned block_;
};

template <class Api, class T>
__global__ void __launch_bounds__(all_reduce_threads, 1) reduce_over_peers(AllReduceCall call) {
    // Arguments that are indexed at run time would lie in each thread's own memory (HIP).
    __shared__ PeerMemory* peers[PeerMemory::max_ranks];
    if (threadIdx.x == 0) {
        SHARDWISE_DEVICE_UNROLL
        for (int rank = 0; rank < PeerMemory::max_ranks; ++rank) peers[rank] = call.peers[rank];
    }
    __syncthreads();
    PeerBlock<Api, T> block(call, peers);
    (void)PeerProtocol::exchange(block);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
