// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Copies past the caches: what another core reads next need not be fetched out of this core's cache.
///
/// Memory  neither side need be aligned
/// Order   visible to others before any later release
inline void store_past_caches(std::byte* to, std::byte const* from, std::size_t bytes) {
#if defined(__x86_64__)
    // Whole lines go past the caches.
    auto const before = (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64;
    auto done = before < bytes ? before : bytes;
    if (done > 0) std::memcpy(to, from, done);
    for (; done + 64 <= bytes; done += 64) {
        auto const* const source = reinterpret_cast<__m128i const*>(from + done);
        auto* const target = reinterpret_cast<__m128i*>(to + done);
        auto const a = _mm_loadu_si128(source);
        auto const b = _mm_loadu_si128(source + 1);
        auto const c = _mm_loadu_si128(source + 2);
        auto const d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
    // These stores are not ordered by a release alone.
    _mm_sfence();
#else
    std::memcpy(to, from, bytes);
#endif
}

/// Whether long pieces are written past the caches, found by trying: cores that share a cache hand each other cached lines at
/// 20 GB/s, and memory gives 11; cores that do not, or that the host of a virtual machine moved apart, hand them over at 2 to 5
/// (AMD EPYC 9004, bench/bench_all_reduce.cpp). Each rank may choose for itself: it is only about how it writes.
class StoreChoice {
public:
    /// Shorter calls take too short a time to be measured.
    static constexpr std::size_t min_bytes = 16 * 1024;

    void begin(std::size_t bytes) {
        is_timed_ = bytes >= min_bytes;
        is_past_caches_ = false;
        if (!is_timed_) return;
        size_class_ = static_cast<std::size_t>(std::bit_width(bytes)) % size_classes;
        auto& tried = classes_[size_class_];
        // All ranks try at the same calls, so that each sees what its way does to all.
        bool const is_trial = ++tried.calls % trial_interval == 0;
        bool const is_new = tried.calls <= first_trials;
        is_past_caches_ = is_new ? tried.calls % 2 == 0 : (tried.times[1] < tried.times[0]) != is_trial;
        start_ = Clock::now();
    }
    void end() {
        if (!is_timed_) return;
        auto const time = std::chrono::duration<float, std::nano>(Clock::now() - start_).count();
        auto& known = classes_[size_class_].times[is_past_caches_ ? 1 : 0];
        // The least of late, which forgets by a tenth per call: a delay of one call says nothing.
        known = known == 0.0F || time < known ? time : std::min(time, known * 1.1F);
        is_past_caches_ = false;
    }
    [[nodiscard]] bool is_past_caches() const { return is_past_caches_; }

private:
    using Clock = std::chrono::steady_clock;

    static constexpr std::size_t size_classes = 64;
    static constexpr std::uint32_t first_trials = 8;
    static constexpr std::uint32_t trial_interval = 64;

    struct Tried {
        /// Nanoseconds of a call, through the caches and past them; 0 before the first.
        float times[2]{};
        std::uint32_t calls = 0;
    };

    Tried classes_[size_classes]{};
    std::size_t size_class_ = 0;
    bool is_timed_ = false;
    bool is_past_caches_ = false;
    Clock::time_point start_{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
