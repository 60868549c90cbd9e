// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/quant_avx2.hpp>
#include <shardwise/backend/host/product/quant_avx512.hpp>
#include <shardwise/backend/host/product/rounded_portable.hpp>
#include <shardwise/backend/host/product/rounded_record.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// How a format of whole numbers is multiplied by activations of eight bits: with the same bits at every level.
///
/// With X the largest magnitude of an activation's block (2^-100 where it is less), |x - unit * q| <= 1.0001 X / 254 for each activation
/// x, so that with u = 2^-24, inputs n and weights w each element differs from the exact sum by no more than
///   1.0001 sum X / 254 |w| + (n / 16 + 4) u sum (|x'| |w'| + |x'| |m|)
/// where |x'| <= X, and w = w' + m as in product/quant_table.hpp (of Q6_K, and of int4 whose groups end within blocks, each part of a
/// block adds another 2 u). A value that is not finite makes its row's results NaN.
[[nodiscard]] inline ProductKernel rounded_kernel(WeightFormat format, IsaLevel level) {
    [[maybe_unused]] auto const index = static_cast<std::size_t>(format);
    switch (level) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
        // Without a dot product of bytes AVX-512 gains little, and the bits are the same.
        case IsaLevel::avx512:
        case IsaLevel::avx2:
            return quant_avx2::rounded_kernels[index];
        case IsaLevel::avx2_vnni:
            return quant_avx2_vnni::rounded_kernels[index];
        case IsaLevel::avx512_bf16:
            return quant_avx512_bf16::rounded_kernels[index];
#else
        case IsaLevel::avx2:
        case IsaLevel::avx2_vnni:
        case IsaLevel::avx512:
        case IsaLevel::avx512_bf16:
#endif
        case IsaLevel::portable:
            break;
    }
    return {&rounded_bytes, &portable::prepare_rounded, &portable::multiply_rounded};
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
