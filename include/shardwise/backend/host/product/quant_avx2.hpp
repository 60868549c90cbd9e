// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/backend/host/product/quant_layout.hpp>
#include <shardwise/backend/host/product/quant_portable.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/quant/decode_bitsandbytes.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_AVX2

namespace detail::quant_avx2 {

using Ints = __m256i;
using Floats = __m256;
inline constexpr std::int64_t lanes = 8;
inline constexpr int halves = 2;

SHARDWISE_ALWAYS_INLINE Ints load_ints(void const* from) {
    return _mm256_loadu_si256(static_cast<__m256i const*>(from));
}
SHARDWISE_ALWAYS_INLINE void store_ints(void* to, Ints value) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}
SHARDWISE_ALWAYS_INLINE Floats load_floats(float const* from) {
    return _mm256_loadu_ps(from);
}
SHARDWISE_ALWAYS_INLINE void store_floats(float* to, Floats value) {
    _mm256_storeu_ps(to, value);
}
SHARDWISE_ALWAYS_INLINE Floats load_halves(std::byte const* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from)));
}
SHARDWISE_ALWAYS_INLINE Ints splat_int(std::int32_t value) {
    return _mm256_set1_epi32(value);
}
SHARDWISE_ALWAYS_INLINE Floats splat(float value) {
    return _mm256_set1_ps(value);
}
SHARDWISE_ALWAYS_INLINE Ints widen_unsigned(std::byte const* from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(from)));
}
SHARDWISE_ALWAYS_INLINE Ints widen_signed(std::byte const* from) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(from)));
}

SHARDWISE_ALWAYS_INLINE Ints add(Ints a, Ints b) {
    return _mm256_add_epi32(a, b);
}
SHARDWISE_ALWAYS_INLINE Ints max(Ints a, Ints b) {
    return _mm256_max_epi32(a, b);
}
SHARDWISE_ALWAYS_INLINE Ints bit_and(Ints a, Ints b) {
    return _mm256_and_si256(a, b);
}
/// a | (b & mask)
SHARDWISE_ALWAYS_INLINE Ints merge_bits(Ints a, Ints b, Ints mask) {
    return _mm256_or_si256(a, _mm256_and_si256(b, mask));
}
template <int count>
SHARDWISE_ALWAYS_INLINE Ints shift_left(Ints a) {
    return _mm256_slli_epi32(a, count);
}
template <int count>
SHARDWISE_ALWAYS_INLINE Ints shift_right(Ints a) {
    return _mm256_srli_epi32(a, count);
}
SHARDWISE_ALWAYS_INLINE Ints shift_right_by(Ints a, int count) {
    return _mm256_srl_epi32(a, _mm_cvtsi32_si128(count));
}
SHARDWISE_ALWAYS_INLINE Ints subtract_bytes(Ints a, Ints b) {
    return _mm256_sub_epi8(a, b);
}
/// Byte `index` of each lane as its highest byte, above zeros.
template <int index>
SHARDWISE_ALWAYS_INLINE Ints highest_byte(Ints a) {
    if constexpr (index == 3) {
        return bit_and(a, splat_int(static_cast<std::int32_t>(0xFF000000U)));
    } else {
        constexpr auto i = static_cast<char>(index), none = static_cast<char>(-128);
        return _mm256_shuffle_epi8(a, _mm256_setr_epi8(none, none, none, i, none, none, none, i + 4, none, none, none, i + 8,
                                                       none, none, none, i + 12, none, none, none, i, none, none, none,
                                                       i + 4, none, none, none, i + 8, none, none, none, i + 12));
    }
}
SHARDWISE_ALWAYS_INLINE std::int32_t reduce_max(Ints a) {
    __m128i largest = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0x4E));
    largest = _mm_max_epi32(largest, _mm_shuffle_epi32(largest, 0xB1));
    return _mm_cvtsi128_si32(largest);
}

SHARDWISE_ALWAYS_INLINE Floats add(Floats a, Floats b) {
    return _mm256_add_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats multiply(Floats a, Floats b) {
    return _mm256_mul_ps(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats fused(Floats a, Floats b, Floats c) {
    return _mm256_fmadd_ps(a, b, c);
}
SHARDWISE_ALWAYS_INLINE Floats to_floats(Ints a) {
    return _mm256_cvtepi32_ps(a);
}
SHARDWISE_ALWAYS_INLINE Ints magnitude_bits(Floats a) {
    return _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7FFFFFFF));
}

/// Half of 2^(e - 127); NaN for 255.
SHARDWISE_ALWAYS_INLINE Floats half_e8m0(Ints exponents) {
    Ints const normal = _mm256_slli_epi32(_mm256_sub_epi32(exponents, _mm256_set1_epi32(1)), 23);
    Ints const small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), exponents);
    Ints const is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), exponents);
    Ints const is_nan = _mm256_cmpeq_epi32(exponents, _mm256_set1_epi32(255));
    Ints const value = _mm256_blendv_epi8(normal, small, is_small);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(value, _mm256_set1_epi32(0x7FC00000), is_nan));
}
SHARDWISE_ALWAYS_INLINE Ints doubled_e2m1_plus_12(Ints codes) {
    return _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0)), codes);
}

struct Nf4Table {
    Floats low;
    Floats high;
};
SHARDWISE_ALWAYS_INLINE Nf4Table load_nf4_table() {
    return {_mm256_loadu_ps(nf4_values.data()), _mm256_loadu_ps(nf4_values.data() + 8)};
}
/// The values of the lowest four bits of each lane.
SHARDWISE_ALWAYS_INLINE Floats look_up(Nf4Table const& table, Ints codes) {
    // The lookup takes three bits; the fourth, as a sign, chooses the table.
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.low, codes), _mm256_permutevar8x32_ps(table.high, codes),
                            _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)));
}

#include <shardwise/backend/host/product/quant_activations.inc>
#include <shardwise/backend/host/product/quant_blocks.inc>
#include <shardwise/backend/host/product/quant_product.inc>
#include <shardwise/backend/host/product/quant_floats.inc>
#include <shardwise/backend/host/product/quant_float_rows.inc>
#include <shardwise/backend/host/product/quant_kernels.inc>

}  // namespace detail::quant_avx2

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
