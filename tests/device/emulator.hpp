// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fiber_place.hpp"
#include "shared_arrays.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

// Runs kernels on the host, as their device would: a block is an operating-system thread, its threads are fibers that take
// turns at barriers and shuffles, and the blocks of a kernel run at once. Shared memory is therefore thread_local; before a block
// sees any of it, it is filled with bytes that are no number, no index and no address. This is how the suite runs device code on a
// machine without a GPU and without a vendor's kit.

#define __device__
#define __global__
#define __shared__                                               \
    shardwise::testing::Emulator::current().begin_shared([] {}); \
    static thread_local
#define __launch_bounds__(...)

namespace shardwise::testing {

/// In which order the threads of a block that can go on do so: as they are numbered, the other way round, or as chance has it.
enum class ThreadOrder { forwards, backwards, shuffled };

/// A block's threads.
class Emulator {
public:
    /// Runs kernel() for `blocks` blocks of `threads` threads, up to 16 blocks at once; warps have `warp_size` threads.
    /// No order given: launches take turns at the orders, unless SHARDWISE_THREAD_ORDER is forwards, backwards or shuffled.
    static void run(std::int64_t blocks, int threads, int warp_size, std::function<void()> const& kernel) {
        run(blocks, threads, warp_size, kernel, next_order());
    }
    static void run(std::int64_t blocks, int threads, int warp_size, std::function<void()> const& kernel,
                    ThreadOrder order) {
        // Now: the stacks of fibers are small.
        (void)SharedArrays::get();
        std::atomic<std::int64_t> next{0};
        auto const work = [&] {
            Emulator emulator(threads, warp_size, kernel, order);
            for (auto block = next.fetch_add(1); block < blocks; block = next.fetch_add(1)) {
                emulator.run_block(block, blocks);
            }
        };
        std::vector<std::thread> workers;
        for (std::int64_t i = 1; i < std::min<std::int64_t>(blocks, 16); ++i) workers.emplace_back(work);
        work();
        for (auto& worker : workers) worker.join();
    }

    static Emulator& current() { return *running(); }

    /// Before the declaration of shared memory in a function, of which `Here` is a lambda: poisons that function's, once in a block.
    template <class Here>
    void begin_shared(Here const&);

    /// A barrier of the block, or of the calling thread's warp.
    void wait_for_block() { wait(block_); }
    float shuffle_xor(float value, int mask) { return shuffle_from(value, index_ % warp_size_ ^ mask); }
    float shuffle_from(float value, int lane) {
        auto const thread = index_;
        values_[static_cast<std::size_t>(thread)] = value;
        auto& warp = warps_[static_cast<std::size_t>(thread / warp_size_)];
        wait(warp);
        auto const other = values_[static_cast<std::size_t>(thread / warp_size_ * warp_size_ + lane)];
        wait(warp);
        return other;
    }

private:
    struct Barrier {
        int size = 0;
        int arrived = 0;
        std::uint64_t generation = 0;
    };
    struct Fiber {
        FiberPlace place;
        std::unique_ptr<char[]> stack;
        bool is_done = false;
    };

    static constexpr std::size_t stack_bytes = 32 * 1024;
    using Stack = std::unique_ptr<char[]>;

    /// Stacks that no block uses now: fresh ones cost a page fault or two each.
    struct Stacks {
        std::mutex mutex;
        std::vector<Stack> free;

        static Stacks& get() {
            static Stacks stacks;
            return stacks;
        }
        void exchange(std::vector<Fiber>& fibers, bool gives) {
            std::lock_guard const lock(mutex);
            for (auto& fiber : fibers) {
                if (gives) {
                    free.push_back(std::move(fiber.stack));
                } else if (free.empty()) {
                    fiber.stack.reset(new char[stack_bytes]);
                } else {
                    fiber.stack = std::move(free.back());
                    free.pop_back();
                }
            }
        }
    };

    Emulator(int threads, int warp_size, std::function<void()> const& kernel, ThreadOrder order)
        : warp_size_(warp_size),
          kernel_(kernel),
          fibers_(static_cast<std::size_t>(threads)),
          values_(static_cast<std::size_t>(threads)),
          warps_(static_cast<std::size_t>(threads / warp_size)),
          turns_(static_cast<std::size_t>(threads)) {
        block_.size = threads;
        std::iota(turns_.begin(), turns_.end(), 0);
        if (order == ThreadOrder::backwards) std::reverse(turns_.begin(), turns_.end());
        if (order == ThreadOrder::shuffled) std::shuffle(turns_.begin(), turns_.end(), std::mt19937(1));
        for (auto& warp : warps_) warp.size = warp_size;
        Stacks::get().exchange(fibers_, false);
    }
    ~Emulator() { Stacks::get().exchange(fibers_, true); }

    static ThreadOrder next_order() {
        static constexpr std::array names{"forwards", "backwards", "shuffled"};
        static auto const* const asked = std::getenv("SHARDWISE_THREAD_ORDER");
        static std::atomic<unsigned> launches{0};
        if (asked == nullptr) return static_cast<ThreadOrder>(launches.fetch_add(1) % names.size());
        auto const found = std::find(names.begin(), names.end(), std::string_view(asked));
        if (found == names.end()) {
            std::fputs("emulator: SHARDWISE_THREAD_ORDER is none of forwards, backwards and shuffled\n", stderr);
            std::abort();
        }
        return static_cast<ThreadOrder>(found - names.begin());
    }
    /// Functions with shared memory, numbered as they come.
    static int next_function() {
        static std::atomic<int> next{0};
        return next.fetch_add(1);
    }
    static Emulator*& running() {
        static thread_local Emulator* emulator = nullptr;
        return emulator;
    }

    void run_block(std::int64_t block, std::int64_t blocks);
    void resume(int thread);

    void wait(Barrier& barrier) {
        auto const generation = barrier.generation;
        if (++barrier.arrived == barrier.size) {
            barrier.arrived = 0;
            ++barrier.generation;
            has_moved_ = true;
            return;
        }
        while (barrier.generation == generation) {
            FiberPlace::go(fibers_[static_cast<std::size_t>(index_)].place, scheduler_);
        }
        has_moved_ = true;
    }
    static void enter() {
        auto& emulator = current();
        emulator.kernel_();
        auto& fiber = emulator.fibers_[static_cast<std::size_t>(emulator.index_)];
        fiber.is_done = true;
        emulator.has_moved_ = true;
        FiberPlace::go(fiber.place, emulator.scheduler_);
    }

    int warp_size_;
    std::function<void()> const& kernel_;
    std::vector<Fiber> fibers_;
    std::vector<float> values_;
    std::vector<Barrier> warps_;
    std::vector<int> turns_;
    /// By the number of a function: whether this block has seen its shared memory.
    std::vector<char> has_begun_;
    Barrier block_;
    FiberPlace scheduler_;
    int index_ = 0;
    bool has_moved_ = false;
};

struct Dimension {
    unsigned x = 0;
};

}  // namespace shardwise::testing

// The names that device compilers know without being told.
inline thread_local shardwise::testing::Dimension threadIdx;
inline thread_local shardwise::testing::Dimension blockIdx;
inline thread_local shardwise::testing::Dimension blockDim;
inline thread_local shardwise::testing::Dimension gridDim;

inline void __syncthreads() {
    shardwise::testing::Emulator::current().wait_for_block();
}
inline void __threadfence_system() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
}
inline std::uint32_t atomicAdd(std::uint32_t* at, std::uint32_t value) {
    return std::atomic_ref(*at).fetch_add(value);
}
inline std::uint32_t atomicOr(std::uint32_t* at, std::uint32_t bits) {
    return std::atomic_ref(*at).fetch_or(bits);
}
inline std::uint32_t atomicCAS(std::uint32_t* at, std::uint32_t expected, std::uint32_t value) {
    std::atomic_ref(*at).compare_exchange_strong(expected, value);
    return expected;
}

namespace shardwise::testing {

inline void Emulator::resume(int thread) {
    index_ = thread;
    threadIdx.x = static_cast<unsigned>(thread);
    FiberPlace::go(scheduler_, fibers_[static_cast<std::size_t>(thread)].place);
}

template <class Here>
void Emulator::begin_shared(Here const&) {
    static auto const function = static_cast<std::size_t>(next_function());
    static auto const arrays = SharedArrays::get().of_function<Here>();
    static auto const anchor = SharedArrays::get().place("threadIdx");
    if (has_begun_.size() <= function) has_begun_.resize(function + 1);
    if (std::exchange(has_begun_[function], char{1}) != 0) return;
    auto* const variables = reinterpret_cast<char*>(&threadIdx) - anchor;
    for (auto const& array : arrays) std::memset(variables + array.at, 0xFF, array.bytes);
}

inline void Emulator::run_block(std::int64_t block, std::int64_t blocks) {
    running() = this;
    blockIdx.x = static_cast<unsigned>(block);
    blockDim.x = static_cast<unsigned>(fibers_.size());
    gridDim.x = static_cast<unsigned>(blocks);
    std::fill(has_begun_.begin(), has_begun_.end(), char{0});
    for (auto& fiber : fibers_) {
        fiber.is_done = false;
        fiber.place.begin(fiber.stack.get(), stack_bytes, &Emulator::enter);
    }
    bool is_running = true;
    while (is_running) {
        is_running = false;
        has_moved_ = false;
        for (auto const thread : turns_) {
            if (fibers_[static_cast<std::size_t>(thread)].is_done) continue;
            is_running = true;
            resume(thread);
        }
        if (is_running && !has_moved_) {
            std::fputs("emulator: some threads of a block wait at a barrier that others never come to\n", stderr);
            std::abort();
        }
    }
}

}  // namespace shardwise::testing
