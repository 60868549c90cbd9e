#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/dense_avx2.hpp>
#include <shardwise/backend/host/product/dense_avx512.hpp>
#include <shardwise/backend/host/product/dense_portable.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/op/weight_format.hpp>

namespace shardwise::inline v0_2_0 {

namespace detail {

/// How a dense format is multiplied; whatever else, as floats.
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

/// How a format is multiplied at a level that the machine has.
[[nodiscard]] inline ProductKernel product_kernel(WeightFormat format, IsaLevel level) {
    return dense_kernel(format, level);
}

}  // namespace detail

}  // namespace shardwise::inline v0_2_0
