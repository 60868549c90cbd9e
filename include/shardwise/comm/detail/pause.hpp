#pragma once

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

/// How a rank waits: it spins while the answer is likely near, then gives the core to others.
class Waiter {
public:
    /// Spinning only costs where ranks outnumber cores: the one that is waited for needs the core.
    explicit Waiter(bool is_crowded) : spins_(is_crowded ? 40 : 4000) {}

    /// Waits a moment. True now and then: time to look at the clock and at the others.
    [[nodiscard]] bool rest() {
        ++turns_;
        if (turns_ < spins_) {
            pause_core();
            return turns_ % 256 == 0;
        }
        std::this_thread::yield();
        return true;
    }

private:
    int spins_;
    int turns_ = 0;
};

}  // namespace shardwise::inline v0_2_0::detail
