// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/dense_gemm.hpp>
#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/core/on_call.hpp>
#include <shardwise/op/product_activations.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <cstdint>

#if SHARDWISE_HAS_BODY(KERNELS)
#include <shardwise/backend/host/product/gemm_amx.hpp>
#include <shardwise/backend/host/product/table.hpp>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// How a format is multiplied at a level that the machine has; nothing for a format that has no product. Formats of which the policy
/// does not speak take activations in full.
SHARDWISE_ON_CALL
[[nodiscard]] ProductKernel product_kernel(WeightFormat format, IsaLevel level,
                                           ProductActivations activations = ProductActivations::full);

/// The tiles of plain matrices, and how their elements become floats.
struct GemmKernels {
    TileKernels const* tiles = nullptr;
    void (*widen_bf16)(std::byte const* from, std::int64_t count, float* to) = nullptr;
    void (*widen_f16)(std::byte const* from, std::int64_t count, float* to) = nullptr;
    /// Some rows and panels of a product of floats that are rounded to bf16, where the level has a unit for it; else null.
    void (*multiply_rounded)(GemmTask const& task, std::int64_t first_row, std::int64_t last_row,
                             std::int64_t first_panel, std::int64_t last_panel) = nullptr;
};

SHARDWISE_ON_CALL
[[nodiscard]] GemmKernels gemm_kernels(IsaLevel level);

#if SHARDWISE_HAS_BODY(KERNELS)
SHARDWISE_ON_CALL_BODY
ProductKernel product_kernel(WeightFormat format, IsaLevel level, ProductActivations activations) {
    if (rounds_activations(format, activations))
        return format == WeightFormat::bf16 ? rounded_bf16_kernel(level) : rounded_kernel(format, level);
    return is_quantised(format) ? quant_kernel(format, level) : dense_kernel(format, level);
}

SHARDWISE_ON_CALL_BODY
GemmKernels gemm_kernels([[maybe_unused]] IsaLevel level) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (level >= IsaLevel::avx512) {
        return {&avx512::tile_kernels<avx512::ReadF32>, &avx2::widen_bf16, &avx2::widen_f16,
                level == IsaLevel::amx ? &amx::run_rounded_gemm<> : nullptr};
    }
    if (level >= IsaLevel::avx2) return {&avx2::float_tile_kernels, &avx2::widen_bf16, &avx2::widen_f16};
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
    if (level >= IsaLevel::neon) return {&neon::tile_kernels<neon::ReadF32>, &neon::widen_bf16, &neon::widen_f16};
#endif
    return {&portable::tile_kernels<portable::ReadF32>, &portable::widen_bf16, &portable::widen_f16};
}
#endif

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
