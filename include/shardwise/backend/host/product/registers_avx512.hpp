// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/core/version.hpp>

#include <cstdint>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_AVX512

namespace detail::avx512 {

/// The first `count` of 16 words: all where there are more, none where there is none.
SHARDWISE_ALWAYS_INLINE __mmask16 first_of_16(std::int64_t count) {
    return static_cast<__mmask16>(count >= 16 ? 0xffffU : count <= 0 ? 0U : (1U << static_cast<unsigned>(count)) - 1U);
}

/// Rows of 16 words become columns, whatever the words are.
SHARDWISE_ALWAYS_INLINE void transpose(__m512 (&t)[16]) {
    __m512 a[16];
    SHARDWISE_UNROLL
    for (int i = 0; i < 16; i += 4) {
        __m512d const x0 = _mm512_castps_pd(_mm512_unpacklo_ps(t[i], t[i + 1]));
        __m512d const x1 = _mm512_castps_pd(_mm512_unpackhi_ps(t[i], t[i + 1]));
        __m512d const x2 = _mm512_castps_pd(_mm512_unpacklo_ps(t[i + 2], t[i + 3]));
        __m512d const x3 = _mm512_castps_pd(_mm512_unpackhi_ps(t[i + 2], t[i + 3]));
        a[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(x0, x2));
        a[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x0, x2));
        a[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(x1, x3));
        a[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(x1, x3));
    }
    SHARDWISE_UNROLL
    for (int i = 0; i < 4; ++i) {
        __m512 const y0 = _mm512_shuffle_f32x4(a[i], a[4 + i], 0x88);
        __m512 const y1 = _mm512_shuffle_f32x4(a[i], a[4 + i], 0xDD);
        __m512 const y2 = _mm512_shuffle_f32x4(a[8 + i], a[12 + i], 0x88);
        __m512 const y3 = _mm512_shuffle_f32x4(a[8 + i], a[12 + i], 0xDD);
        t[i] = _mm512_shuffle_f32x4(y0, y2, 0x88);
        t[4 + i] = _mm512_shuffle_f32x4(y1, y3, 0x88);
        t[8 + i] = _mm512_shuffle_f32x4(y0, y2, 0xDD);
        t[12 + i] = _mm512_shuffle_f32x4(y1, y3, 0xDD);
    }
}

}  // namespace detail::avx512

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
