// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/kernels/detail/attention_task.hpp>
#include <shardwise/kernels/detail/row_task.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_AVX2

namespace detail::kernels_avx2 {

using Floats = __m256;
using Mask = __m256;
inline constexpr std::int64_t lanes = 8;
inline constexpr int tile_rows = 2;

SHARDWISE_ALWAYS_INLINE Floats splat(float value) {
    return _mm256_set1_ps(value);
}
SHARDWISE_ALWAYS_INLINE Floats iota() {
    return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
}
SHARDWISE_ALWAYS_INLINE __m256i first_lanes(std::int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
SHARDWISE_ALWAYS_INLINE Floats widen_bf16(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
SHARDWISE_ALWAYS_INLINE __m128i load_halves(void const* from, std::int64_t count) {
    std::uint16_t halves[8] = {};
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(halves + i, static_cast<char const*>(from) + 2 * i, 2);
    return _mm_loadu_si128(reinterpret_cast<__m128i const*>(halves));
}
SHARDWISE_ALWAYS_INLINE void store_halves(void* to, std::int64_t count, __m128i value) {
    std::uint16_t halves[8];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves), value);
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(static_cast<char*>(to) + 2 * i, halves + i, 2);
}
SHARDWISE_ALWAYS_INLINE Floats load(float const* from) {
    return _mm256_loadu_ps(from);
}
SHARDWISE_ALWAYS_INLINE Floats load(Bfloat16 const* from) {
    return widen_bf16(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from)));
}
SHARDWISE_ALWAYS_INLINE Floats load(Float16 const* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from)));
}
SHARDWISE_ALWAYS_INLINE Floats load(std::int8_t const* from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(from))));
}
SHARDWISE_ALWAYS_INLINE Floats load_part(std::int8_t const* from, std::int64_t count) {
    std::int8_t bytes[8] = {};
    for (std::int64_t i = 0; i < count; ++i) bytes[i] = from[i];
    return load(bytes);
}
SHARDWISE_ALWAYS_INLINE Floats load_part(float const* from, std::int64_t count) {
    return _mm256_maskload_ps(from, first_lanes(count));
}
SHARDWISE_ALWAYS_INLINE Floats load_part(Bfloat16 const* from, std::int64_t count) {
    return widen_bf16(load_halves(from, count));
}
SHARDWISE_ALWAYS_INLINE Floats load_part(Float16 const* from, std::int64_t count) {
    return _mm256_cvtph_ps(load_halves(from, count));
}
SHARDWISE_ALWAYS_INLINE __m128i narrow_bf16(Floats value) {
    __m256i const bits = _mm256_castps_si256(value);
    __m256i const odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i const rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    __m256i const quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i const is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    __m256i const words = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}
SHARDWISE_ALWAYS_INLINE __m128i narrow_f16(Floats value) {
    return _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
}
SHARDWISE_ALWAYS_INLINE void store(float* to, Floats value) {
    _mm256_storeu_ps(to, value);
}
SHARDWISE_ALWAYS_INLINE void store(Bfloat16* to, Floats value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), narrow_bf16(value));
}
SHARDWISE_ALWAYS_INLINE void store(Float16* to, Floats value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), narrow_f16(value));
}
SHARDWISE_ALWAYS_INLINE void store_part(float* to, std::int64_t count, Floats value) {
    _mm256_maskstore_ps(to, first_lanes(count), value);
}
SHARDWISE_ALWAYS_INLINE void store_part(Bfloat16* to, std::int64_t count, Floats value) {
    store_halves(to, count, narrow_bf16(value));
}
SHARDWISE_ALWAYS_INLINE void store_part(Float16* to, std::int64_t count, Floats value) {
    store_halves(to, count, narrow_f16(value));
}

SHARDWISE_ALWAYS_INLINE Floats add(Floats a, Floats b) {
    return _mm256_add_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats subtract(Floats a, Floats b) {
    return _mm256_sub_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats multiply(Floats a, Floats b) {
    return _mm256_mul_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats divide(Floats a, Floats b) {
    return _mm256_div_ps(a, b);
}
/// a * b + c where it is one of many addends.
SHARDWISE_ALWAYS_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
    return _mm256_fmadd_ps(a, b, c);
}
/// The same of an element that is no sum.
SHARDWISE_ALWAYS_INLINE Floats product_plus(Floats a, Floats b, Floats c) {
    return multiply_add(a, b, c);
}
SHARDWISE_ALWAYS_INLINE Floats max(Floats a, Floats b) {
    return _mm256_max_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats min(Floats a, Floats b) {
    return _mm256_min_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats magnitude(Floats a) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a);
}
SHARDWISE_ALWAYS_INLINE Mask is_less(Floats a, Floats b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
SHARDWISE_ALWAYS_INLINE bool has_nan(Floats a) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)) != 0;
}
SHARDWISE_ALWAYS_INLINE Floats select(Mask mask, Floats yes, Floats no) {
    return _mm256_blendv_ps(no, yes, mask);
}
SHARDWISE_ALWAYS_INLINE Floats round(Floats a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
SHARDWISE_ALWAYS_INLINE Floats power_of_two(__m256i exponent) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23));
}
/// In two steps, so that results below the smallest normal number and infinity are reached; exponents within +-250.
SHARDWISE_ALWAYS_INLINE Floats scale_by_power(Floats a, Floats exponent) {
    __m256i const whole = _mm256_cvtps_epi32(exponent);
    __m256i const half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(a, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
}
SHARDWISE_ALWAYS_INLINE Floats swap_pairs(Floats a) {
    return _mm256_permute_ps(a, 0xB1);
}
SHARDWISE_ALWAYS_INLINE float reduce_max(Floats a) {
    float values[8];
    _mm256_storeu_ps(values, a);
    float greatest = values[0];
    for (int i = 1; i < 8; ++i) greatest = values[i] > greatest ? values[i] : greatest;
    return greatest;
}

struct Doubles {
    __m256d low;
    __m256d high;
};
SHARDWISE_ALWAYS_INLINE Doubles splat_double(double value) {
    return {_mm256_set1_pd(value), _mm256_set1_pd(value)};
}
SHARDWISE_ALWAYS_INLINE Doubles widen(Floats a) {
    return {_mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1))};
}
SHARDWISE_ALWAYS_INLINE Floats narrow(Doubles a) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(a.low)), _mm256_cvtpd_ps(a.high), 1);
}
SHARDWISE_ALWAYS_INLINE Doubles add(Doubles a, Doubles b) {
    return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
}
SHARDWISE_ALWAYS_INLINE Doubles subtract(Doubles a, Doubles b) {
    return {_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)};
}
SHARDWISE_ALWAYS_INLINE Doubles multiply(Doubles a, Doubles b) {
    return {_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)};
}
SHARDWISE_ALWAYS_INLINE Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
    return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
}
SHARDWISE_ALWAYS_INLINE Doubles add_square(Doubles a, Doubles c) {
    return {_mm256_fmadd_pd(a.low, a.low, c.low), _mm256_fmadd_pd(a.high, a.high, c.high)};
}
SHARDWISE_ALWAYS_INLINE double reduce_add(Doubles a) {
    double values[4];
    _mm256_storeu_pd(values, _mm256_add_pd(a.low, a.high));
    return (values[0] + values[2]) + (values[1] + values[3]);
}

SHARDWISE_ALWAYS_INLINE void transpose(Floats (&t)[8]) {
    Floats a[8];
    SHARDWISE_UNROLL
    for (int i = 0; i < 8; i += 4) {
        __m256d const x0 = _mm256_castps_pd(_mm256_unpacklo_ps(t[i], t[i + 1]));
        __m256d const x1 = _mm256_castps_pd(_mm256_unpackhi_ps(t[i], t[i + 1]));
        __m256d const x2 = _mm256_castps_pd(_mm256_unpacklo_ps(t[i + 2], t[i + 3]));
        __m256d const x3 = _mm256_castps_pd(_mm256_unpackhi_ps(t[i + 2], t[i + 3]));
        a[i] = _mm256_castpd_ps(_mm256_unpacklo_pd(x0, x2));
        a[i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x0, x2));
        a[i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(x1, x3));
        a[i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(x1, x3));
    }
    SHARDWISE_UNROLL
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm256_permute2f128_ps(a[i], a[4 + i], 0x20);
        t[4 + i] = _mm256_permute2f128_ps(a[i], a[4 + i], 0x31);
    }
}
// Each needs those before it.
// clang-format off
#include <shardwise/kernels/detail/row_kernels.inc>
#include <shardwise/kernels/detail/score_kernels.inc>
#include <shardwise/kernels/detail/attention_kernels.inc>
// clang-format on

}  // namespace detail::kernels_avx2

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
