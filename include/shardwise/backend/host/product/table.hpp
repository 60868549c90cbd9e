// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/dense_avx2.hpp>
#include <shardwise/backend/host/product/dense_avx512.hpp>
#include <shardwise/backend/host/product/dense_portable.hpp>
#include <shardwise/backend/host/product/quant_table.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// How a dense format is multiplied.
[[nodiscard]] inline ProductKernel dense_kernel(WeightFormat format, [[maybe_unused]] IsaLevel level) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (level >= IsaLevel::avx512) {
        if (format == WeightFormat::bf16) return {nullptr, nullptr, &avx512::multiply_bf16};
        if (format == WeightFormat::f16) return {nullptr, nullptr, &avx512::multiply_f16};
        return {nullptr, nullptr, &avx512::multiply_f32};
    }
    if (level == IsaLevel::avx2) {
        if (format == WeightFormat::bf16) return {nullptr, nullptr, &avx2::multiply_bf16};
        if (format == WeightFormat::f16) return {nullptr, nullptr, &avx2::multiply_f16};
        return {nullptr, nullptr, &avx2::multiply_f32};
    }
#endif
    if (format == WeightFormat::bf16) return {nullptr, nullptr, &portable::multiply_bf16};
    if (format == WeightFormat::f16) return {nullptr, nullptr, &portable::multiply_f16};
    return {nullptr, nullptr, &portable::multiply_f32};
}

/// The tiles of plain matrices, and how their elements become floats.
struct GemmKernels {
    TileKernels const* tiles = nullptr;
    void (*widen_bf16)(std::byte const* from, std::int64_t count, float* to) = nullptr;
    void (*widen_f16)(std::byte const* from, std::int64_t count, float* to) = nullptr;
};

[[nodiscard]] inline GemmKernels gemm_kernels([[maybe_unused]] IsaLevel level) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (level >= IsaLevel::avx512) {
        return {&avx512::tile_kernels<avx512::ReadF32>, &avx2::widen_bf16, &avx2::widen_f16};
    }
    if (level == IsaLevel::avx2) return {&avx2::tile_kernels<avx2::ReadF32>, &avx2::widen_bf16, &avx2::widen_f16};
#endif
    return {&portable::tile_kernels<portable::ReadF32>, &portable::widen_bf16, &portable::widen_f16};
}

/// How a format is multiplied at a level that the machine has.
[[nodiscard]] inline ProductKernel product_kernel(WeightFormat format, IsaLevel level) {
    return is_quantised(format) ? quant_kernel(format, level) : dense_kernel(format, level);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
