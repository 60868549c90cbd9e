// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/quant_avx2.hpp>
#include <shardwise/backend/host/product/quant_avx512.hpp>
#include <shardwise/backend/host/product/quant_layout.hpp>
#include <shardwise/backend/host/product/quant_neon.hpp>
#include <shardwise/backend/host/product/quant_portable.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/quant/weight_format.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// How a quantised format is multiplied.
///
/// With activations x of one row, which a block of 32 shares a largest magnitude X of, weights w, and u = 2^-24, each element
/// differs from the exact sum by no more than
///   portable, and int4 whose groups are no multiple of 32:  (inputs + 4) u sum (|x w'| + |x m|)
///   nf4, avx512_bf16:  (inputs / 64 + 20) u sum |x w|
///   neon, avx2, avx512:  (inputs / 32 * 2 + 26) u sum (|x w'| + |x m|)
///   avx512_bf16:  2.01 u sum X |w| + (inputs / 32 * 2 + 8) u sum (|x w'| + |x m|)
/// where w = w' + m with a minimum m (Q4_1, Q5_1, Q4_K, Q5_K), else m = 0. At the last level activations become whole numbers of a
/// power of two of at most 2.01 * 2^-23 X, so that integers below 2^22 stay as they are. At all of these but for nf4 at the last,
/// activations are in units of such a power of two, 2^-126 where X is below 2^-103, and a value that is not finite makes its row's
/// results NaN.
[[nodiscard]] inline ProductKernel quant_kernel(WeightFormat format, IsaLevel level) {
    switch (level) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
        case IsaLevel::avx2:
        case IsaLevel::avx2_vnni:
            return quant_avx2::quant_kernel(format);
        case IsaLevel::avx512:
            return quant_avx512::quant_kernel(format);
        case IsaLevel::avx512_bf16:
        case IsaLevel::amx:
            return quant_avx512_bf16::quant_kernel(format);
#endif
#if defined(SHARDWISE_HAS_ARM_LEVELS)
        case IsaLevel::neon:
        case IsaLevel::neon_i8mm:
            return quant_neon::quant_kernel(format);
#else
        case IsaLevel::neon:
        case IsaLevel::neon_i8mm:
#endif
        case IsaLevel::portable:
            break;
#if !defined(SHARDWISE_HAS_X86_LEVELS)
        case IsaLevel::avx2:
        case IsaLevel::avx2_vnni:
        case IsaLevel::avx512:
        case IsaLevel::avx512_bf16:
        case IsaLevel::amx:
            break;
#endif
    }
    return is_quantised(format) ? ProductKernel{nullptr, nullptr, &portable::multiply_quantised} : ProductKernel{};
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
