// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/backend/host/process_mark.hpp>
#include <shardwise/backend/host/start_thread.hpp>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Threads that share the parts of a loop. The calling thread is one of them, so a pool of one starts no thread at all.
///
/// Order  `run` returns when every part is done; a run from inside a part, or beside another thread's run, is computed by the
///        thread that asked for it. In a fork of the process the threads are missing: the caller computes alone
class ThreadPool {
public:
    /// `threads` in all, at least 1. Where asked, those that it starts are pinned to the cores that the caller may use, one after
    /// another behind the `first_core`-th, which is left to the caller (CorePin). Where the system gives fewer threads, the
    /// pool has those.
    explicit ThreadPool(int threads, bool is_pinned = false, int first_core = 0) {
        if (threads < 2) return;
        threads_ = std::make_unique<Threads>();
        auto& workers = threads_->workers;
        for (int i = 1; i < threads; ++i) {
            workers.emplace_back();
            bool const is_started = detail::start_thread(workers.back(), [this, is_pinned, core = first_core + i] {
                std::optional<CorePin> pin;
                if (is_pinned) pin.emplace(core);
                work_until_stopped();
            });
            if (!is_started) {
                workers.pop_back();
                return;
            }
        }
    }
    ThreadPool(ThreadPool const&) = delete;
    ThreadPool& operator=(ThreadPool const&) = delete;
    ~ThreadPool() {
        if (!threads_) return;
        if (!process_.is_here()) {
            // What ends a thread or a condition would wait for the threads.
            (void)threads_.release();
            return;
        }
        {
            std::lock_guard const lock(mutex_);
            is_stopped_.store(true, std::memory_order_relaxed);
            state_.fetch_add(one_run, std::memory_order_release);
        }
        threads_->wake.notify_all();
        for (auto& worker : threads_->workers) worker.join();
    }

    /// The threads that take part, the caller's included.
    [[nodiscard]] int size() const { return threads_ ? static_cast<int>(threads_->workers.size()) + 1 : 1; }

    /// Calls body(part) for every part in [0, parts), each once. What a body throws first ends the loop: it is thrown again
    /// when no part is being computed, and parts that nobody has begun by then are left out.
    template <class Body>
    void run(std::int64_t parts, Body&& body) {
        if (parts < 2 || size() == 1 || is_taken_.exchange(true, std::memory_order_acquire)) {
            for (std::int64_t part = 0; part < parts; ++part) body(part);
            return;
        }
        body_ = [](void* argument, std::int64_t part) {
            (*static_cast<std::remove_reference_t<Body>*>(argument))(part);
        };
        argument_ = const_cast<void*>(static_cast<void const*>(&body));
        parts_ = parts;
        next_.store(0, std::memory_order_relaxed);
        // Nobody else changes the state between two runs.
        state_.store((state_.load(std::memory_order_relaxed) / one_run + 1) * one_run + is_open,
                     std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) > 0 && process_.is_here()) {
            // Under the lock, so that no worker goes to sleep between its look at the state and this call.
            std::lock_guard const lock(mutex_);
            threads_->wake.notify_all();
        }
        take_parts();
        // Who has not come by now finds the door closed: a thread that sleeps, or that the system keeps from running, is not
        // waited for.
        state_.fetch_and(~is_open, std::memory_order_relaxed);
        for (int spin = 0; state_.load(std::memory_order_acquire) % is_open > 0; ++spin) relax(spin);
        auto const thrown = std::exchange(thrown_, nullptr);
        if (thrown) has_thrown_.store(false, std::memory_order_relaxed);
        is_taken_.store(false, std::memory_order_release);
        if (thrown) std::rethrow_exception(thrown);
    }

    /// Calls body(begin, end) for pieces of [0, count) of at least `grain` each, at most one per thread.
    template <class Body>
    void run_ranges(std::int64_t count, std::int64_t grain, Body&& body) {
        auto pieces = grain > 0 ? count / grain : count;
        if (pieces > size()) pieces = size();
        if (pieces < 1) pieces = count > 0 ? 1 : 0;
        run(pieces, [&](std::int64_t piece) { body(count * piece / pieces, count * (piece + 1) / pieces); });
    }

    /// Calls body(begin, end) for pieces of [0, count) of at most `grain` each: every thread goes through a range of its
    /// own from its beginning to its end, and then helps the others with what is left of theirs.
    ///
    /// Memory that such a loop streams is read in order, a few streams in all, and no thread waits long for the last: the
    /// weights of one row came 1 to 5 % faster than in pieces that threads take in turns
    /// (bench/results/2026-11-22-decode-epyc.md).
    template <class Body>
    void run_in_order(std::int64_t count, std::int64_t grain, Body&& body) {
        auto const ranges = size() < max_ranges ? size() : max_ranges;
        if (ranges == 1 || count <= grain) {
            for (std::int64_t begin = 0; begin < count; begin += grain)
                body(begin, begin + grain < count ? begin + grain : count);
            return;
        }
        std::array<Range, max_ranges> left;
        for (int i = 0; i < ranges; ++i) {
            auto& range = left[static_cast<std::size_t>(i)];
            range.next.store(count * i / ranges, std::memory_order_relaxed);
            range.end = count * (i + 1) / ranges;
        }
        run(size(), [&](std::int64_t thread) {
            for (int i = 0; i < ranges; ++i) {
                auto& range = left[static_cast<std::size_t>((thread + i) % ranges)];
                for (auto begin = range.take(grain); begin < range.end; begin = range.take(grain)) {
                    body(begin, begin + grain < range.end ? begin + grain : range.end);
                }
            }
        });
    }

private:
    /// Ranges of a loop in order, on the stack of who runs it: more threads than these share them.
    static constexpr int max_ranges = 64;

    /// What is left of a range, on a line that one thread writes to as long as nobody helps it.
    struct alignas(64) Range {
        std::atomic<std::int64_t> next{0};
        std::int64_t end = 0;

        std::int64_t take(std::int64_t count) { return next.fetch_add(count, std::memory_order_relaxed); }
    };

    /// About 20 microseconds. A thread that gave its core away at once would get it back milliseconds later where others want it.
    static constexpr int spins_before_yield = 1000;
    /// About 80 microseconds: a step's next loop usually comes sooner than a sleeping thread wakes (50 us).
    static constexpr int spins_before_sleep = 4000;

    /// `state_` counts the runs above, then says whether a thread may join the run, then how many workers have.
    static constexpr std::uint64_t is_open = 1U << 16U;
    static constexpr std::uint64_t one_run = is_open << 1U;

    static void relax(int spin) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
        if (spin > spins_before_yield && spin % 16 == 0) std::this_thread::yield();
    }

    void take_parts() {
#if defined(__cpp_exceptions)
        try {
            take_parts_in_turn();
        } catch (...) {
            next_.store(parts_, std::memory_order_relaxed);
            if (!has_thrown_.exchange(true, std::memory_order_relaxed)) thrown_ = std::current_exception();
        }
#else
        take_parts_in_turn();
#endif
    }
    void take_parts_in_turn() {
        for (auto part = next_.fetch_add(1, std::memory_order_relaxed); part < parts_;
             part = next_.fetch_add(1, std::memory_order_relaxed)) {
            body_(argument_, part);
        }
    }

    /// Joins the run that is open, if it is.
    [[nodiscard]] bool join() {
        auto state = state_.load(std::memory_order_relaxed);
        while ((state & is_open) != 0) {
            if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed))
                return true;
        }
        return false;
    }

    void work_until_stopped() {
        std::uint64_t seen = 0;
        auto const is_new = [&](std::memory_order order) { return state_.load(order) / one_run != seen; };
        while (true) {
            for (int spin = 0; !is_new(std::memory_order_acquire); ++spin) {
                if (spin < spins_before_sleep) {
                    relax(spin);
                    continue;
                }
                std::unique_lock lock(mutex_);
                sleepers_.fetch_add(1, std::memory_order_seq_cst);
                threads_->wake.wait(lock, [&] { return is_new(std::memory_order_seq_cst); });
                sleepers_.fetch_sub(1, std::memory_order_relaxed);
            }
            // Before the look at is_stopped_: a worker that took the pool's end for a run it has seen would sleep for ever.
            seen = state_.load(std::memory_order_acquire) / one_run;
            if (is_stopped_.load(std::memory_order_relaxed)) return;
            if (!join()) continue;
            take_parts();
            state_.fetch_sub(1, std::memory_order_release);
        }
    }

    struct Threads {
        std::vector<std::thread> workers;
        std::condition_variable wake;
    };
    detail::ProcessMark process_;
    /// None in a pool of one, which allocates nothing.
    std::unique_ptr<Threads> threads_;
    std::mutex mutex_;
    std::atomic<bool> is_stopped_{false};

    void (*body_)(void*, std::int64_t) = nullptr;
    void* argument_ = nullptr;
    std::int64_t parts_ = 0;
    /// What a body threw first; whoever says so first writes it.
    std::exception_ptr thrown_;
    std::atomic<bool> has_thrown_{false};
    std::atomic<bool> is_taken_{false};
    std::atomic<std::int64_t> next_{0};
    std::atomic<int> sleepers_{0};
    std::atomic<std::uint64_t> state_{0};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
