// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/backend/host/product/quant_layout.hpp>
#include <shardwise/backend/host/product/quant_portable.hpp>
#include <shardwise/backend/host/product/rounded_portable.hpp>
#include <shardwise/backend/host/product/rounded_record.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/quant/nf4_values.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(SHARDWISE_HAS_ARM_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_NEON

namespace detail::quant_neon {

#include <shardwise/backend/host/product/quant_lanes_neon.inc>

/// Adds to each lane four products of signed bytes, of which not both factors of one are -128: two fit into 16 bits.
SHARDWISE_ALWAYS_INLINE Ints signed_dot(Ints sum, Ints codes, Ints factors) {
    int8x16_t const a = vreinterpretq_s8_s32(codes);
    int8x16_t const b = vreinterpretq_s8_s32(factors);
    int16x8_t const low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
    return vpadalq_s16(sum, vpaddq_s16(low, vmull_high_s8(a, b)));
}

// Each needs those before it.
// clang-format off
#include <shardwise/backend/host/product/quant_activations.inc>
#include <shardwise/backend/host/product/quant_blocks.inc>
#include <shardwise/backend/host/product/quant_product.inc>
#include <shardwise/backend/host/product/quant_floats.inc>
#include <shardwise/backend/host/product/quant_float_rows.inc>
#include <shardwise/backend/host/product/quant_kernels.inc>
#include <shardwise/backend/host/product/rounded_signed.inc>
#include <shardwise/backend/host/product/quant_rounded.inc>
// clang-format on

}  // namespace detail::quant_neon

SHARDWISE_TARGET_END

SHARDWISE_TARGET_BEGIN_NEON_I8MM

/// Only what products of bytes differ in.
namespace detail::quant_neon_i8mm {

#include <shardwise/backend/host/product/quant_lanes_neon.inc>

/// Adds to each lane four products of an unsigned and a signed byte. clang 14 has the intrinsic only where the whole program is
/// compiled for such processors.
SHARDWISE_ALWAYS_INLINE Ints byte_dot(Ints sum, Ints codes, Ints factors) {
    asm("usdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(codes), "w"(factors));
    return sum;
}

// clang-format off
#include <shardwise/backend/host/product/quant_activations.inc>
#include <shardwise/backend/host/product/quant_blocks.inc>
#include <shardwise/backend/host/product/quant_product.inc>
#include <shardwise/backend/host/product/rounded_dots.inc>
#include <shardwise/backend/host/product/quant_rounded.inc>
// clang-format on

}  // namespace detail::quant_neon_i8mm

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
