// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/calibrate/memory_rates.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

/// What a machine can do at best, measured: the bounds that the benchmarks of products hold their kernels against.
namespace bench {

using namespace shardwise;

/// Seconds that one call takes.
template <class Function>
double time_once(Function&& function) {
    auto const start = std::chrono::steady_clock::now();
    function();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The shortest of several calls, at least `runs` and at least `seconds` long together; the first does not count.
template <class Function>
double best_time(Function&& function, int runs = 5, double seconds = 0.2) {
    function();
    double best = 1e30;
    double total = 0.0;
    for (int run = 0; run < runs || total < seconds; ++run) {
        auto const time = time_once(function);
        best = std::min(best, time);
        total += time;
    }
    return best;
}

namespace rates {

/// Consecutive multiply-adds of each part of the probe: half a millisecond, so that starting the threads does not count.
inline constexpr std::int64_t peak_steps = 200'000;

inline float peak_plain(float value, std::int64_t& flops) {
    float sums[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (std::int64_t step = 0; step < peak_steps; ++step) {
        for (float& sum : sums) sum = sum * value + value;
    }
    flops = peak_steps * 8 * 2;
    return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

#if defined(SHARDWISE_HAS_X86_LEVELS)

SHARDWISE_TARGET_BEGIN_AVX2

inline float peak_avx2(float value, std::int64_t& flops) {
    auto const factor = _mm256_set1_ps(value);
    // Ten different chains: equal ones would be computed once.
    auto s0 = _mm256_set1_ps(value + 1.0F);
    auto s1 = _mm256_set1_ps(value + 2.0F);
    auto s2 = _mm256_set1_ps(value + 3.0F);
    auto s3 = _mm256_set1_ps(value + 4.0F);
    auto s4 = _mm256_set1_ps(value + 5.0F);
    auto s5 = _mm256_set1_ps(value + 6.0F);
    auto s6 = _mm256_set1_ps(value + 7.0F);
    auto s7 = _mm256_set1_ps(value + 8.0F);
    auto s8 = _mm256_set1_ps(value + 9.0F);
    auto s9 = _mm256_set1_ps(value + 10.0F);
    for (std::int64_t step = 0; step < peak_steps; ++step) {
        s0 = _mm256_fmadd_ps(s0, factor, factor);
        s1 = _mm256_fmadd_ps(s1, factor, factor);
        s2 = _mm256_fmadd_ps(s2, factor, factor);
        s3 = _mm256_fmadd_ps(s3, factor, factor);
        s4 = _mm256_fmadd_ps(s4, factor, factor);
        s5 = _mm256_fmadd_ps(s5, factor, factor);
        s6 = _mm256_fmadd_ps(s6, factor, factor);
        s7 = _mm256_fmadd_ps(s7, factor, factor);
        s8 = _mm256_fmadd_ps(s8, factor, factor);
        s9 = _mm256_fmadd_ps(s9, factor, factor);
    }
    flops = peak_steps * 10 * 8 * 2;
    auto const sum = _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3)),
                                   _mm256_add_ps(_mm256_add_ps(s4, s5), _mm256_add_ps(s6, s7)));
    return _mm256_cvtss_f32(_mm256_add_ps(sum, _mm256_add_ps(s8, s9)));
}

SHARDWISE_TARGET_END

SHARDWISE_TARGET_BEGIN_AVX512

inline float peak_avx512(float value, std::int64_t& flops) {
    auto const factor = _mm512_set1_ps(value);
    // Ten different chains: equal ones would be computed once.
    auto s0 = _mm512_set1_ps(value + 1.0F);
    auto s1 = _mm512_set1_ps(value + 2.0F);
    auto s2 = _mm512_set1_ps(value + 3.0F);
    auto s3 = _mm512_set1_ps(value + 4.0F);
    auto s4 = _mm512_set1_ps(value + 5.0F);
    auto s5 = _mm512_set1_ps(value + 6.0F);
    auto s6 = _mm512_set1_ps(value + 7.0F);
    auto s7 = _mm512_set1_ps(value + 8.0F);
    auto s8 = _mm512_set1_ps(value + 9.0F);
    auto s9 = _mm512_set1_ps(value + 10.0F);
    for (std::int64_t step = 0; step < peak_steps; ++step) {
        s0 = _mm512_fmadd_ps(s0, factor, factor);
        s1 = _mm512_fmadd_ps(s1, factor, factor);
        s2 = _mm512_fmadd_ps(s2, factor, factor);
        s3 = _mm512_fmadd_ps(s3, factor, factor);
        s4 = _mm512_fmadd_ps(s4, factor, factor);
        s5 = _mm512_fmadd_ps(s5, factor, factor);
        s6 = _mm512_fmadd_ps(s6, factor, factor);
        s7 = _mm512_fmadd_ps(s7, factor, factor);
        s8 = _mm512_fmadd_ps(s8, factor, factor);
        s9 = _mm512_fmadd_ps(s9, factor, factor);
    }
    flops = peak_steps * 10 * 16 * 2;
    auto const sum = _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)),
                                   _mm512_add_ps(_mm512_add_ps(s4, s5), _mm512_add_ps(s6, s7)));
    return _mm512_reduce_add_ps(_mm512_add_ps(sum, _mm512_add_ps(s8, s9)));
}

SHARDWISE_TARGET_END

#endif

inline float compute(float value, std::int64_t& flops, [[maybe_unused]] IsaLevel isa) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (isa >= IsaLevel::avx512) return peak_avx512(value, flops);
    if (isa >= IsaLevel::avx2) return peak_avx2(value, flops);
#endif
    return peak_plain(value, flops);
}

}  // namespace rates

/// The rate at which all threads of a context together read memory beyond the caches.
///
/// Units  bytes per second; 0 where there is no memory for the probe
inline double measure_read_rate(HostContext& context, double seconds = 1.0) {
    std::chrono::duration<double> const time(seconds);
    auto const rate = shardwise::measure_read_rate(
        context, {.time = std::chrono::duration_cast<std::chrono::nanoseconds>(time), .runs = 5});
    return rate ? *rate : 0.0;
}

/// Multiplies and adds floats that are in registers, on all threads of a context together.
///
/// Units  operations that were done; a multiply-add counts as two
inline double run_fp32_peak(HostContext& context, IsaLevel isa = detect_isa()) {
    auto const parts = static_cast<std::int64_t>(context.pool().size()) * 4;
    std::int64_t flops = 0;
    std::atomic<float> sink{0.0F};
    context.pool().run(parts, [&](std::int64_t part) {
        std::int64_t done = 0;
        sink.store(rates::compute(0.5F, done, isa), std::memory_order_relaxed);
        if (part == 0) flops = done;
    });
    return static_cast<double>(flops * parts);
}

/// The rate of run_fp32_peak.
///
/// Units  operations per second
inline double measure_fp32_peak(HostContext& context, double seconds = 0.5) {
    double flops = 0.0;
    auto const time = best_time([&] { flops = run_fp32_peak(context); }, 3, seconds);
    return flops / time;
}

}  // namespace bench
