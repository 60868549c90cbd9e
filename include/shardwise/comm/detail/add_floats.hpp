// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/comm/detail/element.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Arrays that are added element by element, in their order, and those that get the sums: some of the same, or others.
struct FloatArrays {
    static constexpr std::int32_t most = 64;

    float const* from[most];
    float* to[most];
    std::int32_t sources = 0;
    std::int32_t targets = 0;
};

#if defined(SHARDWISE_HAS_X86_LEVELS)

SHARDWISE_TARGET_BEGIN_AVX2

/// A multiple of 16 floats.
inline void add_floats_avx2(float* out, float const* first, float const* second, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) {
        auto const low = _mm256_add_ps(_mm256_loadu_ps(first + i), _mm256_loadu_ps(second + i));
        auto const high = _mm256_add_ps(_mm256_loadu_ps(first + i + 8), _mm256_loadu_ps(second + i + 8));
        _mm256_storeu_ps(out + i, low);
        _mm256_storeu_ps(out + i + 8, high);
    }
}

/// A multiple of 16 floats.
template <bool is_other_first>
inline void add_and_replace_avx2(float* sums, float* others, float const* next, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) {
        auto const low = _mm256_loadu_ps(others + i);
        auto const high = _mm256_loadu_ps(others + i + 8);
        _mm256_storeu_ps(others + i, _mm256_loadu_ps(next + i));
        _mm256_storeu_ps(others + i + 8, _mm256_loadu_ps(next + i + 8));
        auto const own_low = _mm256_loadu_ps(sums + i);
        auto const own_high = _mm256_loadu_ps(sums + i + 8);
        _mm256_storeu_ps(sums + i, is_other_first ? _mm256_add_ps(low, own_low) : _mm256_add_ps(own_low, low));
        _mm256_storeu_ps(sums + i + 8, is_other_first ? _mm256_add_ps(high, own_high) : _mm256_add_ps(own_high, high));
    }
}

/// A multiple of 16 floats.
inline void add_arrays_avx2(FloatArrays const& arrays, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) {
        auto low = _mm256_loadu_ps(arrays.from[0] + i);
        auto high = _mm256_loadu_ps(arrays.from[0] + i + 8);
        for (std::int32_t source = 1; source < arrays.sources; ++source) {
            low = _mm256_add_ps(low, _mm256_loadu_ps(arrays.from[source] + i));
            high = _mm256_add_ps(high, _mm256_loadu_ps(arrays.from[source] + i + 8));
        }
        for (std::int32_t target = 0; target < arrays.targets; ++target) {
            _mm256_storeu_ps(arrays.to[target] + i, low);
            _mm256_storeu_ps(arrays.to[target] + i + 8, high);
        }
    }
}

SHARDWISE_TARGET_END
SHARDWISE_TARGET_BEGIN_AVX512

/// A multiple of 16 floats.
inline void add_floats_avx512(float* out, float const* first, float const* second, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) {
        _mm512_storeu_ps(out + i, _mm512_add_ps(_mm512_loadu_ps(first + i), _mm512_loadu_ps(second + i)));
    }
}

/// A multiple of 16 floats.
template <bool is_other_first>
inline void add_and_replace_avx512(float* sums, float* others, float const* next, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) {
        auto const other = _mm512_loadu_ps(others + i);
        _mm512_storeu_ps(others + i, _mm512_loadu_ps(next + i));
        auto const own = _mm512_loadu_ps(sums + i);
        _mm512_storeu_ps(sums + i, is_other_first ? _mm512_add_ps(other, own) : _mm512_add_ps(own, other));
    }
}

/// A multiple of 16 floats.
inline void add_arrays_avx512(FloatArrays const& arrays, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) {
        auto sum = _mm512_loadu_ps(arrays.from[0] + i);
        for (std::int32_t source = 1; source < arrays.sources; ++source) {
            sum = _mm512_add_ps(sum, _mm512_loadu_ps(arrays.from[source] + i));
        }
        for (std::int32_t target = 0; target < arrays.targets; ++target) _mm512_storeu_ps(arrays.to[target] + i, sum);
    }
}

SHARDWISE_TARGET_END

/// Gives the widest body that this processor can run as many of `count` floats as are whole vectors, from `least` on; returns
/// how many these are.
template <class Avx512, class Avx2>
[[nodiscard]] std::int64_t in_vectors(std::int64_t count, std::int64_t least, Avx512 const& avx512, Avx2 const& avx2) {
    auto const level = detect_isa();
    if (count < least || level < IsaLevel::avx2) return 0;
    auto const whole = count / 16 * 16;
    if (level >= IsaLevel::avx512)
        avx512(whole);
    else
        avx2(whole);
    return whole;
}

#elif defined(SHARDWISE_HAS_ARM_LEVELS)

SHARDWISE_TARGET_BEGIN_NEON

/// A multiple of 16 floats.
inline void add_floats_neon(float* out, float const* first, float const* second, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) {
        float32x4_t sums[4];
        SHARDWISE_UNROLL
        for (int j = 0; j < 4; ++j) sums[j] = vaddq_f32(vld1q_f32(first + i + 4 * j), vld1q_f32(second + i + 4 * j));
        SHARDWISE_UNROLL
        for (int j = 0; j < 4; ++j) vst1q_f32(out + i + 4 * j, sums[j]);
    }
}

/// A multiple of 16 floats.
template <bool is_other_first>
inline void add_and_replace_neon(float* sums, float* others, float const* next, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 4) {
        float32x4_t const other = vld1q_f32(others + i);
        vst1q_f32(others + i, vld1q_f32(next + i));
        float32x4_t const own = vld1q_f32(sums + i);
        vst1q_f32(sums + i, is_other_first ? vaddq_f32(other, own) : vaddq_f32(own, other));
    }
}

/// A multiple of 16 floats.
inline void add_arrays_neon(FloatArrays const& arrays, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) {
        float32x4_t sums[4];
        SHARDWISE_UNROLL
        for (int j = 0; j < 4; ++j) sums[j] = vld1q_f32(arrays.from[0] + i + 4 * j);
        for (std::int32_t source = 1; source < arrays.sources; ++source) {
            SHARDWISE_UNROLL
            for (int j = 0; j < 4; ++j) sums[j] = vaddq_f32(sums[j], vld1q_f32(arrays.from[source] + i + 4 * j));
        }
        for (std::int32_t target = 0; target < arrays.targets; ++target) {
            SHARDWISE_UNROLL
            for (int j = 0; j < 4; ++j) vst1q_f32(arrays.to[target] + i + 4 * j, sums[j]);
        }
    }
}

SHARDWISE_TARGET_END

/// Gives the body as many of `count` floats as are whole vectors, from `least` on; returns how many these are. Every processor for
/// which the program is compiled has it.
template <class Neon>
[[nodiscard]] std::int64_t in_vectors(std::int64_t count, std::int64_t least, Neon const& neon) {
    if (count < least) return 0;
    auto const whole = count / 16 * 16;
    neon(whole);
    return whole;
}

#endif

/// out[i] = first[i] + second[i]: the same bits at every level, but other cores' memory comes faster in wide loads.
/// With 16 bytes at a time a core's window of instructions is full with 20 lines on their way: two ranks sum 256 KB in 13.1
/// microseconds with 32, in 15.5 with 16; and 4 KB in 0.57 with 64, in 0.61 with 32 (AMD EPYC 9004).
///
/// Memory  `out` may be `first` or `second`
/// Source  bench/bench_all_reduce.cpp
inline void add_floats(float* out, float const* first, float const* second, std::int64_t count) {
    std::int64_t done = 0;
#if defined(SHARDWISE_HAS_X86_LEVELS)
    done = in_vectors(
        count, 64, [&](std::int64_t whole) { add_floats_avx512(out, first, second, whole); },
        [&](std::int64_t whole) { add_floats_avx2(out, first, second, whole); });
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
    done = in_vectors(count, 64, [&](std::int64_t whole) { add_floats_neon(out, first, second, whole); });
#endif
    for (; done < count; ++done)
        store_element(out, done, load_element<float>(first, done) + load_element<float>(second, done));
}

/// sums[i] += others[i], or with the other first; others[i] = next[i]: a line that another core hands over is read and written
/// while it is at hand.
///
/// Memory  `next` overlaps neither of the others
template <bool is_other_first>
inline void add_and_replace(float* sums, float* others, float const* next, std::int64_t count) {
    std::int64_t done = 0;
#if defined(SHARDWISE_HAS_X86_LEVELS)
    done = in_vectors(
        count, 64, [&](std::int64_t whole) { add_and_replace_avx512<is_other_first>(sums, others, next, whole); },
        [&](std::int64_t whole) { add_and_replace_avx2<is_other_first>(sums, others, next, whole); });
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
    done = in_vectors(count, 64,
                      [&](std::int64_t whole) { add_and_replace_neon<is_other_first>(sums, others, next, whole); });
#endif
    for (; done < count; ++done) {
        auto const own = load_element<float>(sums, done);
        auto const other = load_element<float>(others, done);
        store_element(sums, done, is_other_first ? other + own : own + other);
        store_element(others, done, load_element<float>(next, done));
    }
}

/// The sums of several arrays of `count` floats, each read and written once: to[.][i] = from[0][i] + from[1][i] + ...
inline void add_arrays(FloatArrays const& arrays, std::int64_t count) {
    std::int64_t done = 0;
#if defined(SHARDWISE_HAS_X86_LEVELS)
    done = in_vectors(
        count, 16, [&](std::int64_t whole) { add_arrays_avx512(arrays, whole); },
        [&](std::int64_t whole) { add_arrays_avx2(arrays, whole); });
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
    done = in_vectors(count, 16, [&](std::int64_t whole) { add_arrays_neon(arrays, whole); });
#endif
    for (; done < count; ++done) {
        auto sum = load_element<float>(arrays.from[0], done);
        for (std::int32_t source = 1; source < arrays.sources; ++source)
            sum += load_element<float>(arrays.from[source], done);
        for (std::int32_t target = 0; target < arrays.targets; ++target) store_element(arrays.to[target], done, sum);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
