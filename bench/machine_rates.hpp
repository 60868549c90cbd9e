#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/huge_pages.hpp>
#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

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

/// Consecutive multiply-adds of each probe: enough that starting the threads does not count.
inline constexpr std::int64_t peak_steps = 4'000'000;

inline std::uint64_t read_plain(std::byte const* from, std::int64_t bytes) {
    std::uint64_t sums[4] = {};
    for (std::int64_t i = 0; i + 32 <= bytes; i += 32) {
        std::uint64_t values[4];
        std::memcpy(values, from + i, sizeof values);
        for (int j = 0; j < 4; ++j) sums[j] ^= values[j];
    }
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}

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

/// `streams` pieces of a range, read side by side.
inline std::uint64_t read_avx2(std::byte const* from, std::int64_t bytes, int streams) {
    auto const piece = bytes / streams / 128 * 128;
    auto sum0 = _mm256_setzero_si256();
    auto sum1 = sum0;
    for (std::int64_t i = 0; i < piece; i += 128) {
        for (int stream = 0; stream < streams; ++stream) {
            auto const* const at = reinterpret_cast<__m256i const*>(from + stream * piece + i);
            sum0 = _mm256_xor_si256(sum0, _mm256_xor_si256(_mm256_load_si256(at), _mm256_load_si256(at + 1)));
            sum1 = _mm256_xor_si256(sum1, _mm256_xor_si256(_mm256_load_si256(at + 2), _mm256_load_si256(at + 3)));
        }
    }
    alignas(32) std::uint64_t values[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(values), _mm256_xor_si256(sum0, sum1));
    return values[0] ^ values[1] ^ values[2] ^ values[3];
}

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

inline std::uint64_t read_avx512(std::byte const* from, std::int64_t bytes, int streams) {
    auto const piece = bytes / streams / 128 * 128;
    auto sum0 = _mm512_setzero_si512();
    auto sum1 = sum0;
    for (std::int64_t i = 0; i < piece; i += 128) {
        for (int stream = 0; stream < streams; ++stream) {
            auto const* const at = from + stream * piece + i;
            sum0 = _mm512_xor_si512(sum0, _mm512_load_si512(at));
            sum1 = _mm512_xor_si512(sum1, _mm512_load_si512(at + 64));
        }
    }
    return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(_mm512_xor_si512(sum0, sum1)));
}

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

inline std::uint64_t read(std::byte const* from, std::int64_t bytes, [[maybe_unused]] int streams,
                          [[maybe_unused]] IsaLevel isa) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (isa >= IsaLevel::avx512) return read_avx512(from, bytes, streams);
    if (isa >= IsaLevel::avx2) return read_avx2(from, bytes, streams);
#endif
    return read_plain(from, bytes);
}

inline float compute(float value, std::int64_t& flops, [[maybe_unused]] IsaLevel isa) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (isa >= IsaLevel::avx512) return peak_avx512(value, flops);
    if (isa >= IsaLevel::avx2) return peak_avx2(value, flops);
#endif
    return peak_plain(value, flops);
}

}  // namespace rates

/// Memory that the read probe reads: well beyond any cache.
inline constexpr std::int64_t read_probe_bytes = std::int64_t{256} << 20;

/// The rate at which all threads of a context together read memory beyond the caches: the best of several orders of reading.
///
/// Units  bytes per second; 0 where there is no memory for the probe
inline double measure_read_rate(HostContext& context, double seconds = 1.0) {
    auto memory = Buffer<std::byte, Host>::allocate(context, read_probe_bytes);
    if (!memory) return 0.0;
    auto* const data = memory->data();
    detail::prefer_huge_pages(data, read_probe_bytes);
    auto const isa = detect_isa();
    context.pool().run_ranges(read_probe_bytes, 4096, [&](std::int64_t begin, std::int64_t end) {
        std::memset(data + begin, 1, static_cast<std::size_t>(end - begin));
    });
    double best = 1e30;
    std::uint64_t volatile sink = 0;
    for (int const streams : {1, 2, 4}) {
        auto const time = best_time(
            [&] {
                // Small parts, so that a thread that was kept from running does not hold up the others.
                constexpr std::int64_t part_bytes = std::int64_t{8} << 20;
                context.pool().run(read_probe_bytes / part_bytes, [&](std::int64_t part) {
                    sink = rates::read(data + part * part_bytes, part_bytes, streams, isa);
                });
            },
            5, seconds / 3);
        best = std::min(best, time);
    }
    return static_cast<double>(read_probe_bytes) / best;
}

/// The rate at which all threads of a context together multiply and add floats that are in registers.
///
/// Units  operations per second; a multiply-add counts as two
inline double measure_fp32_peak(HostContext& context, double seconds = 0.5) {
    auto const isa = detect_isa();
    auto const parts = static_cast<std::int64_t>(context.pool().size()) * 4;
    std::int64_t flops = 0;
    float volatile sink = 0.0F;
    auto const time = best_time(
        [&] {
            context.pool().run(parts, [&](std::int64_t part) {
                std::int64_t done = 0;
                sink = rates::compute(0.5F, done, isa);
                if (part == 0) flops = done;
            });
        },
        3, seconds);
    return static_cast<double>(flops * parts) / time;
}

}  // namespace bench
