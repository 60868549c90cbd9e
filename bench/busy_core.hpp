// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/core_pin.hpp>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace bench {

/// A neighbour that keeps one core busy for half of the time: a millisecond of each two. Where the system lets it, it goes before
/// whoever else wants the core; `share` says what it really got.
class BusyCore {
public:
    explicit BusyCore(int core) : thread_([this, core] { keep_busy(core); }) {
        while (!is_ready_.load(std::memory_order_acquire)) std::this_thread::yield();
    }
    ~BusyCore() {
        is_stopped_.store(true, std::memory_order_relaxed);
        thread_.join();
    }
    BusyCore(BusyCore const&) = delete;
    BusyCore& operator=(BusyCore const&) = delete;

    /// Whether it goes before others.
    [[nodiscard]] bool is_first() const { return is_first_; }
    /// Begins to count anew.
    void restart() {
        began_ = Clock::now();
        used_before_ = used_.load(std::memory_order_relaxed);
    }
    /// The share of the core's time since then.
    [[nodiscard]] double share() const {
        auto const wall = std::chrono::duration<double>(Clock::now() - began_).count();
        return wall > 0.0 ? 1e-9 * static_cast<double>(used_.load(std::memory_order_relaxed) - used_before_) / wall
                          : 0.0;
    }

private:
    using Clock = std::chrono::steady_clock;

    static long long own_time() {
        std::timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
    }

    void keep_busy(int core) {
        constexpr std::chrono::milliseconds half(1);
        shardwise::CorePin const pin(core);
#if defined(__linux__)
        sched_param priority{};
        priority.sched_priority = 1;
        is_first_ = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
#endif
        is_ready_.store(true, std::memory_order_release);
        for (auto next = Clock::now(); !is_stopped_.load(std::memory_order_relaxed); next += 2 * half) {
            while (Clock::now() < next + half) {
            }
            used_.store(own_time(), std::memory_order_relaxed);
            std::this_thread::sleep_until(next + 2 * half);
        }
    }

    std::atomic<bool> is_ready_{false};
    std::atomic<bool> is_stopped_{false};
    bool is_first_ = false;
    std::atomic<long long> used_{0};
    long long used_before_ = 0;
    Clock::time_point began_ = Clock::now();
    std::thread thread_;
};

}  // namespace bench
