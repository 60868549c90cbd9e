// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <chrono>
#include <cstdint>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Tells the core that this is a waiting loop.
inline void pause_core() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

/// The core that the calling thread is on, in a few nanoseconds; -1 where the system does not say.
[[nodiscard]] inline std::int32_t current_core() {
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

/// Whether a group has more ranks than the machine has cores.
[[nodiscard]] inline bool outnumbers_cores(std::int32_t ranks) {
    auto const cores = std::thread::hardware_concurrency();
    return cores > 0 && static_cast<unsigned>(ranks) > cores;
}

/// How a rank waits: it spins while the answer is likely near, then gives the core to others, then sleeps between its looks;
/// and now and then it looks at the clock and at the others. The clock is first read when the answer is late: short waits cost
/// no system call.
class Waiter {
public:
    /// Where ranks outnumber cores, spinning only helps while the others run.
    /// `sleeps` is false where looking is what moves the data (MPI); `is_gentle` where the core has other work of this rank.
    Waiter(bool is_crowded, std::chrono::nanoseconds timeout, bool sleeps = true, bool is_gentle = false)
        : is_crowded_(is_crowded), sleeps_(sleeps), is_gentle_(is_gentle), timeout_(timeout) {}

    /// Waits a moment. True now and then: time to see whether the group has failed. `needs_core()` is asked now and then whether
    /// the one that is waited for needs the core that the caller is on.
    template <class NeedsCore>
    [[nodiscard]] bool rest(NeedsCore const& needs_core) {
        if (is_gentle_ && ++turns_ > gentle_turns) {
            std::this_thread::sleep_for(gentle_sleep);
            return true;
        }
        auto const interval = is_crowded_ ? crowded_interval : interval_of_looks;
        bool const is_look = turns_ % interval == (is_crowded_ ? 0 : interval / 2);
        if (turns_ < (is_crowded_ ? crowded_turns : all_turns) && !(is_look && needs_core())) {
            if (++turns_ > turns_without_pause) pause_core();
            return turns_ % interval_of_looks == 0;
        }
        if (sleeps_ && has_begun_ && now_ - begin_ > time_before_sleep)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        else
            std::this_thread::yield();
        if (is_crowded_) turns_ = 0;
        return true;
    }
    /// Where nothing is known of who needs the core, ranks that outnumber cores do.
    [[nodiscard]] bool rest() {
        return rest([this] { return is_crowded_; });
    }
    /// True a few thousand times a second: time to look whether the others are still there.
    [[nodiscard]] bool is_time_to_look() {
        now_ = Clock::now();
        if (!has_begun_) {
            has_begun_ = true;
            begin_ = next_look_ = now_;
        }
        if (now_ < next_look_) return false;
        next_look_ = now_ + std::chrono::microseconds(200);
        return true;
    }
    /// True where the wait has taken too long, by the last look at the clock.
    [[nodiscard]] bool has_timed_out() const { return now_ - begin_ >= timeout_; }

private:
    using Clock = std::chrono::steady_clock;
    /// Who waits this long waits for a rank that loads, reads or sleeps: it leaves the core, and is 0.2 ms late at most.
    static constexpr std::chrono::milliseconds time_before_sleep{5};
    /// A pause makes an answer that comes at once four times as late: two ranks meet in 52 nanoseconds without and in 213 with
    /// it (AMD EPYC 9004).
    ///
    /// Source  bench/bench_all_reduce.cpp
    static constexpr int turns_without_pause = 2000;
    /// A tenth of a millisecond.
    static constexpr int all_turns = 4000;
    /// A few microseconds: about as long as the one that is waited for takes to get its core.
    static constexpr int crowded_turns = 1024;
    /// About what a message takes between two caches.
    static constexpr int gentle_turns = 100;
    /// Linux adds 50 to 70 us to each.
    ///
    /// Source  bench/results/2026-11-28-overlap.md
    static constexpr std::chrono::microseconds gentle_sleep{10};
    static constexpr int interval_of_looks = 256;
    static constexpr int crowded_interval = 8;

    bool is_crowded_;
    bool sleeps_;
    bool is_gentle_;
    int turns_ = 0;
    bool has_begun_ = false;
    std::chrono::nanoseconds timeout_;
    Clock::time_point begin_{};
    Clock::time_point now_{};
    Clock::time_point next_look_{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
