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

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_AVX2

namespace detail::quant_avx2 {

#include <shardwise/backend/host/product/quant_lanes_avx2.inc>

#include <shardwise/backend/host/product/quant_activations.inc>
#include <shardwise/backend/host/product/quant_blocks.inc>
#include <shardwise/backend/host/product/quant_product.inc>
#include <shardwise/backend/host/product/quant_floats.inc>
#include <shardwise/backend/host/product/quant_float_rows.inc>
#include <shardwise/backend/host/product/quant_kernels.inc>
#include <shardwise/backend/host/product/rounded_pairs.inc>
#include <shardwise/backend/host/product/quant_rounded.inc>

}  // namespace detail::quant_avx2

SHARDWISE_TARGET_END

SHARDWISE_TARGET_BEGIN_AVX2_VNNI

/// Only what products of bytes differ in.
namespace detail::quant_avx2_vnni {

#include <shardwise/backend/host/product/quant_lanes_avx2.inc>

/// Adds to each lane four products of an unsigned and a signed byte.
SHARDWISE_ALWAYS_INLINE Ints byte_dot(Ints sum, Ints codes, Ints factors) {
    return _mm256_dpbusd_avx_epi32(sum, codes, factors);
}

#include <shardwise/backend/host/product/quant_activations.inc>
#include <shardwise/backend/host/product/quant_blocks.inc>
#include <shardwise/backend/host/product/quant_product.inc>
#include <shardwise/backend/host/product/rounded_dots.inc>
#include <shardwise/backend/host/product/quant_rounded.inc>

}  // namespace detail::quant_avx2_vnni

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
