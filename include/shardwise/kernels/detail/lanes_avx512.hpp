// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/backend/host/product/registers_avx512.hpp>
#include <shardwise/kernels/detail/attention_task.hpp>
#include <shardwise/kernels/detail/row_task.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_AVX512

namespace detail::kernels_avx512 {

using Floats = __m512;
using Mask = __mmask16;
inline constexpr std::int64_t lanes = 16;
/// Rows whose sums of four registers each stay in registers.
inline constexpr int tile_rows = 6;

SHARDWISE_ALWAYS_INLINE Mask first_lanes(std::int64_t count) {
    return static_cast<Mask>((1U << static_cast<unsigned>(count)) - 1U);
}
SHARDWISE_ALWAYS_INLINE Floats splat(float value) {
    return _mm512_set1_ps(value);
}
SHARDWISE_ALWAYS_INLINE Floats iota() {
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
SHARDWISE_ALWAYS_INLINE Floats widen_bf16(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
SHARDWISE_ALWAYS_INLINE Floats load(float const* from) {
    return _mm512_loadu_ps(from);
}
SHARDWISE_ALWAYS_INLINE Floats load(Bfloat16 const* from) {
    return widen_bf16(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(from)));
}
SHARDWISE_ALWAYS_INLINE Floats load(Float16 const* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(from)));
}
SHARDWISE_ALWAYS_INLINE Floats load(std::int8_t const* from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from))));
}
/// The first elements; zeros in the other lanes, whose memory is not touched.
SHARDWISE_ALWAYS_INLINE Floats load_part(float const* from, std::int64_t count) {
    return _mm512_maskz_loadu_ps(first_lanes(count), from);
}
SHARDWISE_ALWAYS_INLINE Floats load_part(Bfloat16 const* from, std::int64_t count) {
    return widen_bf16(_mm256_maskz_loadu_epi16(first_lanes(count), from));
}
SHARDWISE_ALWAYS_INLINE Floats load_part(Float16 const* from, std::int64_t count) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(count), from));
}
SHARDWISE_ALWAYS_INLINE Floats load_part(std::int8_t const* from, std::int64_t count) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first_lanes(count), from)));
}
/// To the nearest, ties to even; NaNs stay NaNs.
SHARDWISE_ALWAYS_INLINE __m256i narrow_bf16(Floats value) {
    __m512i const bits = _mm512_castps_si512(value);
    __m512i const odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i const rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    __m512i const quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    Mask const is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_blend_epi32(is_nan, rounded, quiet), 16));
}
SHARDWISE_ALWAYS_INLINE __m256i narrow_f16(Floats value) {
    __m128i const low = _mm256_cvtps_ph(_mm512_castps512_ps256(value), _MM_FROUND_TO_NEAREST_INT);
    __m128i const high = _mm256_cvtps_ph(_mm512_extractf32x8_ps(value, 1), _MM_FROUND_TO_NEAREST_INT);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
SHARDWISE_ALWAYS_INLINE void store(float* to, Floats value) {
    _mm512_storeu_ps(to, value);
}
SHARDWISE_ALWAYS_INLINE void store(Bfloat16* to, Floats value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow_bf16(value));
}
SHARDWISE_ALWAYS_INLINE void store(Float16* to, Floats value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow_f16(value));
}
SHARDWISE_ALWAYS_INLINE void store_part(float* to, std::int64_t count, Floats value) {
    _mm512_mask_storeu_ps(to, first_lanes(count), value);
}
SHARDWISE_ALWAYS_INLINE void store_part(Bfloat16* to, std::int64_t count, Floats value) {
    _mm256_mask_storeu_epi16(to, first_lanes(count), narrow_bf16(value));
}
SHARDWISE_ALWAYS_INLINE void store_part(Float16* to, std::int64_t count, Floats value) {
    _mm256_mask_storeu_epi16(to, first_lanes(count), narrow_f16(value));
}

SHARDWISE_ALWAYS_INLINE Floats add(Floats a, Floats b) {
    return _mm512_add_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats subtract(Floats a, Floats b) {
    return _mm512_sub_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats multiply(Floats a, Floats b) {
    return _mm512_mul_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats divide(Floats a, Floats b) {
    return _mm512_div_ps(a, b);
}
/// a * b + c
/// a * b + c where it is one of many addends.
SHARDWISE_ALWAYS_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_ps(a, b, c);
}
/// The same of an element that is no sum.
SHARDWISE_ALWAYS_INLINE Floats product_plus(Floats a, Floats b, Floats c) {
    return multiply_add(a, b, c);
}
/// The greater one; b where either is NaN.
SHARDWISE_ALWAYS_INLINE Floats max(Floats a, Floats b) {
    return _mm512_max_ps(a, b);
}
/// The smaller one; b where either is NaN.
SHARDWISE_ALWAYS_INLINE Floats min(Floats a, Floats b) {
    return _mm512_min_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats magnitude(Floats a) {
    return _mm512_abs_ps(a);
}
SHARDWISE_ALWAYS_INLINE Mask is_less(Floats a, Floats b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
SHARDWISE_ALWAYS_INLINE bool has_nan(Floats a) {
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q) != 0;
}
SHARDWISE_ALWAYS_INLINE Floats select(Mask mask, Floats yes, Floats no) {
    return _mm512_mask_blend_ps(mask, no, yes);
}
/// To the nearest whole number, for values below 2^22.
SHARDWISE_ALWAYS_INLINE Floats round(Floats a) {
    return _mm512_cvtepi32_ps(_mm512_cvtps_epi32(a));
}
/// a * 2^exponent, exponent a whole number.
SHARDWISE_ALWAYS_INLINE Floats scale_by_power(Floats a, Floats exponent) {
    return _mm512_scalef_ps(a, exponent);
}
/// Each even lane exchanged with the odd one after it.
SHARDWISE_ALWAYS_INLINE Floats swap_pairs(Floats a) {
    return _mm512_permute_ps(a, 0xB1);
}
SHARDWISE_ALWAYS_INLINE float reduce_max(Floats a) {
    return _mm512_reduce_max_ps(a);
}

/// The lanes in double.
struct Doubles {
    __m512d low;
    __m512d high;
};
SHARDWISE_ALWAYS_INLINE Doubles splat_double(double value) {
    return {_mm512_set1_pd(value), _mm512_set1_pd(value)};
}
SHARDWISE_ALWAYS_INLINE Doubles widen(Floats a) {
    return {_mm512_cvtps_pd(_mm512_castps512_ps256(a)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1))};
}
SHARDWISE_ALWAYS_INLINE Floats narrow(Doubles a) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(a.low)), _mm512_cvtpd_ps(a.high), 1);
}
SHARDWISE_ALWAYS_INLINE Doubles add(Doubles a, Doubles b) {
    return {_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)};
}
SHARDWISE_ALWAYS_INLINE Doubles subtract(Doubles a, Doubles b) {
    return {_mm512_sub_pd(a.low, b.low), _mm512_sub_pd(a.high, b.high)};
}
SHARDWISE_ALWAYS_INLINE Doubles multiply(Doubles a, Doubles b) {
    return {_mm512_mul_pd(a.low, b.low), _mm512_mul_pd(a.high, b.high)};
}
/// a * b + c
SHARDWISE_ALWAYS_INLINE Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
    return {_mm512_fmadd_pd(a.low, b.low, c.low), _mm512_fmadd_pd(a.high, b.high, c.high)};
}
/// a * a + c
SHARDWISE_ALWAYS_INLINE Doubles add_square(Doubles a, Doubles c) {
    return {_mm512_fmadd_pd(a.low, a.low, c.low), _mm512_fmadd_pd(a.high, a.high, c.high)};
}
SHARDWISE_ALWAYS_INLINE double reduce_add(Doubles a) {
    return _mm512_reduce_add_pd(_mm512_add_pd(a.low, a.high));
}

using avx512::transpose;

/// The sum of all lanes of each vector, lanes added by halves: each step adds the halves of two vectors at a time.
SHARDWISE_ALWAYS_INLINE Floats sum_lanes(Floats (&vectors)[16]) {
    // [block][of]: the last step puts the sum of vector 4 * block + of where it belongs.
    Floats blocks[4];
    SHARDWISE_UNROLL
    for (int of = 0; of < 4; ++of) {
        Floats const &a = vectors[of], &b = vectors[4 + of], &c = vectors[8 + of], &d = vectors[12 + of];
        Floats const ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
        Floats const cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
        blocks[of] = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    }
    Floats pairs[2];
    SHARDWISE_UNROLL
    for (int i = 0; i < 2; ++i) {
        __m512d const a = _mm512_castps_pd(blocks[2 * i]);
        __m512d const b = _mm512_castps_pd(blocks[2 * i + 1]);
        pairs[i] =
            _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    return _mm512_add_ps(_mm512_shuffle_ps(pairs[0], pairs[1], 0x88), _mm512_shuffle_ps(pairs[0], pairs[1], 0xDD));
}
// Each needs those before it.
// clang-format off
#include <shardwise/kernels/detail/row_kernels.inc>
#include <shardwise/kernels/detail/score_kernels.inc>
#include <shardwise/kernels/detail/attention_kernels.inc>
// clang-format on

}  // namespace detail::kernels_avx512

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
