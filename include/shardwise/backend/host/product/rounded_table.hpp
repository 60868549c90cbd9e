// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/quant_amx.hpp>
#include <shardwise/backend/host/product/quant_avx2.hpp>
#include <shardwise/backend/host/product/quant_avx512.hpp>
#include <shardwise/backend/host/product/quant_i8mm.hpp>
#include <shardwise/backend/host/product/quant_neon.hpp>
#include <shardwise/backend/host/product/rounded_portable.hpp>
#include <shardwise/backend/host/product/rounded_record.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// How a format of whole numbers is multiplied by activations of eight bits: with the same bits at every level.
///
/// With X the largest magnitude of an activation's block (2^-100 where it is less), each activation is taken for a number
/// no more than 1.0001 X / 254 from it. With u = 2^-24, n inputs, weights w, and w = w' + m as in product/quant_table.hpp, each
/// element differs from the exact sum by no more than
///   1.0001 sum X / 254 |w| + (n / 8 + 4) u sum X (|w'| + |m|)
/// because a block rounds four times at most (twice for each half of Q6_K's, twice each for sum and minimum). int4 whose groups end
/// within blocks rounds twice for each group. A value that is not finite makes its row's results NaN.
[[nodiscard]] inline ProductKernel rounded_kernel(WeightFormat format, IsaLevel level) {
    [[maybe_unused]] auto const index = static_cast<std::size_t>(format);
    switch (level) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
        // Without a dot product of bytes AVX-512 gains little, and the bits are the same.
        case IsaLevel::avx512:
        case IsaLevel::avx2:
            return quant_avx2::rounded_kernels<>[index];
        case IsaLevel::avx2_vnni:
            return quant_avx2_vnni::rounded_kernels<>[index];
        case IsaLevel::avx512_bf16:
            return quant_avx512_bf16::rounded_kernels<>[index];
        case IsaLevel::amx:
            return quant_avx512_bf16::rounded_kernels<quant_amx::TileUnit<quant_amx::Tiles>>[index];
#else
        case IsaLevel::avx2:
        case IsaLevel::avx2_vnni:
        case IsaLevel::avx512:
        case IsaLevel::avx512_bf16:
        case IsaLevel::amx:
#endif
#if defined(SHARDWISE_HAS_ARM_LEVELS)
            break;
        case IsaLevel::neon:
            return quant_neon::rounded_kernels<>[index];
        case IsaLevel::neon_i8mm:
            return quant_neon_i8mm::rounded_kernels<quant_neon_i8mm::MatrixUnit>[index];
#else
        case IsaLevel::neon:
        case IsaLevel::neon_i8mm:
#endif
        case IsaLevel::portable:
            break;
    }
    return {&rounded_bytes, &portable::prepare_rounded, &portable::multiply_rounded};
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
