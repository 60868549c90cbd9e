// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The cores that the calling thread may use.
[[nodiscard]] inline int allowed_cores() {
#if defined(__linux__)
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
#endif
    return 0;
}

/// The threads that compute where no number is asked for: one for each core that the calling thread may use. A job scheduler's
/// share is what counts, not what the machine has.
[[nodiscard]] inline int default_threads() {
    if (auto const cores = allowed_cores(); cores > 0) return cores;
    auto const cores = std::thread::hardware_concurrency();
    return cores == 0 ? 1 : static_cast<int>(cores);
}

}  // namespace detail

/// Keeps the calling thread on one core, the `index`-th of those that it may use (counted round), as long as this lives; then it
/// may use them all again. A negative index leaves it alone. Threads that it starts meanwhile stay on that core too.
///
/// A kernel that packs threads onto few cores leaves two that spin and compute for milliseconds on one of them: with a pool whose
/// workers are pinned beside it, products of one row took half of the time (bench_matvec, 2 cores). A refusal (a container's
/// limits) leaves the thread where the system puts it.
class CorePin {
public:
    explicit CorePin([[maybe_unused]] int index) {
#if defined(__linux__)
        CPU_ZERO(&allowed_);
        if (index < 0 || sched_getaffinity(0, sizeof allowed_, &allowed_) != 0 || CPU_COUNT(&allowed_) == 0) return;
        auto place = index % CPU_COUNT(&allowed_);
        for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
            if (!CPU_ISSET(core, &allowed_) || place-- > 0) continue;
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            is_pinned_ = sched_setaffinity(0, sizeof one, &one) == 0;
            return;
        }
#endif
    }
    CorePin(CorePin const&) = delete;
    CorePin& operator=(CorePin const&) = delete;
    /// In the thread that made it.
    ~CorePin() {
#if defined(__linux__)
        if (is_pinned_) (void)sched_setaffinity(0, sizeof allowed_, &allowed_);
#endif
    }

    [[nodiscard]] bool is_pinned() const {
        return is_pinned_;
    }

private:
#if defined(__linux__)
    cpu_set_t allowed_;
#endif
    bool is_pinned_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
