// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/backend/host/product/quant_layout.hpp>
#include <shardwise/backend/host/product/quant_portable.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/quant/decode_bitsandbytes.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_AVX512

namespace detail::quant_avx512 {

#include <shardwise/backend/host/product/quant_lanes_avx512.inc>

inline constexpr bool has_byte_dot = false;
SHARDWISE_ALWAYS_INLINE Ints byte_dot(Ints sum, Ints, Ints) {
    return sum;
}
/// Sums of 16 bits of two products of an unsigned and a signed byte each.
SHARDWISE_ALWAYS_INLINE Ints narrow_dot(Ints sum, Ints codes, Ints factors) {
    return _mm512_add_epi16(sum, _mm512_maddubs_epi16(codes, factors));
}
SHARDWISE_ALWAYS_INLINE Ints widen_pairs(Ints sums) {
    return _mm512_madd_epi16(sums, _mm512_set1_epi16(1));
}

#include <shardwise/backend/host/product/quant_activations.inc>
#include <shardwise/backend/host/product/quant_blocks.inc>
#include <shardwise/backend/host/product/quant_product.inc>

}  // namespace detail::quant_avx512

SHARDWISE_TARGET_END

SHARDWISE_TARGET_BEGIN_AVX512_BF16

namespace detail::quant_avx512_bf16 {

#include <shardwise/backend/host/product/quant_lanes_avx512.inc>

inline constexpr bool has_byte_dot = true;
/// Adds to each lane four products of an unsigned and a signed byte.
SHARDWISE_ALWAYS_INLINE Ints byte_dot(Ints sum, Ints codes, Ints factors) {
    return _mm512_dpbusd_epi32(sum, codes, factors);
}
SHARDWISE_ALWAYS_INLINE Ints narrow_dot(Ints sum, Ints, Ints) {
    return sum;
}
SHARDWISE_ALWAYS_INLINE Ints widen_pairs(Ints sums) {
    return sums;
}

#include <shardwise/backend/host/product/quant_activations.inc>
#include <shardwise/backend/host/product/quant_blocks.inc>
#include <shardwise/backend/host/product/quant_product.inc>

}  // namespace detail::quant_avx512_bf16

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
