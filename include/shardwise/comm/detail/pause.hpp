#pragma once

#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace shardwise::inline v0_2_0::detail {

/// Tells the core that this is a waiting loop.
inline void pause_core() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

/// How a rank waits: it spins while the answer is likely near, then gives the core to others, then sleeps between its looks;
/// and now and then it looks at the clock and at the others. The clock is first read when the answer is late: short waits cost
/// no system call.
class Waiter {
public:
    /// Spinning only costs where ranks outnumber cores: the one that is waited for needs the core.
    /// `sleeps` is false where looking is what moves the data (MPI).
    Waiter(bool is_crowded, std::chrono::nanoseconds timeout, bool sleeps = true)
        : spins_(is_crowded ? 40 : 4000), sleeps_(sleeps), timeout_(timeout) {}

    /// Waits a moment. True now and then: time to see whether the group has failed.
    [[nodiscard]] bool rest() {
        if (turns_ < spins_) {
            ++turns_;
            pause_core();
            return turns_ % 256 == 0;
        }
        if (sleeps_ && has_begun_ && now_ - begin_ > time_before_sleep)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        else
            std::this_thread::yield();
        return true;
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

    int spins_;
    bool sleeps_;
    int turns_ = 0;
    bool has_begun_ = false;
    std::chrono::nanoseconds timeout_;
    Clock::time_point begin_{};
    Clock::time_point now_{};
    Clock::time_point next_look_{};
};

}  // namespace shardwise::inline v0_2_0::detail
