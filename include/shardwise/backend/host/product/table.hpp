// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/bf16_activations.hpp>
#include <shardwise/backend/host/product/dense_amx.hpp>
#include <shardwise/backend/host/product/dense_avx2.hpp>
#include <shardwise/backend/host/product/dense_avx512.hpp>
#include <shardwise/backend/host/product/dense_avx512_bf16.hpp>
#include <shardwise/backend/host/product/dense_neon.hpp>
#include <shardwise/backend/host/product/dense_portable.hpp>
#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/backend/host/product/quant_table.hpp>
#include <shardwise/backend/host/product/rounded_table.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// How elements without scales are multiplied: portably, and by NEON, AVX2 and AVX-512 where the program's processors may have them.
struct DenseProducts {
    WeightFormat format;
    void (*portable)(ProductTask const& task) = nullptr;
    void (*avx2)(ProductTask const& task) = nullptr;
    void (*avx512)(ProductTask const& task) = nullptr;
    void (*neon)(ProductTask const& task) = nullptr;
};
inline constexpr std::array<DenseProducts, 3> dense_products{{
#if defined(SHARDWISE_HAS_X86_LEVELS)
    {WeightFormat::f32, &portable::multiply_f32, &avx2::multiply_f32, &avx512::multiply_f32},
    {WeightFormat::bf16, &portable::multiply_bf16, &avx2::multiply_bf16, &avx512::multiply_bf16},
    {WeightFormat::f16, &portable::multiply_f16, &avx2::multiply_f16, &avx512::multiply_f16},
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
    {WeightFormat::f32, &portable::multiply_f32, nullptr, nullptr, &neon::multiply_f32},
    {WeightFormat::bf16, &portable::multiply_bf16, nullptr, nullptr, &neon::multiply_bf16},
    {WeightFormat::f16, &portable::multiply_f16, nullptr, nullptr, &neon::multiply_f16},
#else
    {WeightFormat::f32, &portable::multiply_f32},
    {WeightFormat::bf16, &portable::multiply_bf16},
    {WeightFormat::f16, &portable::multiply_f16},
#endif
}};

/// Whether there is one product for each format of elements, and none for others.
[[nodiscard]] constexpr bool has_each_dense_product() {
    for (auto const& format : host_format_table) {
        int found = 0;
        for (auto const& row : dense_products) found += row.format == format.format ? 1 : 0;
        if (found != (format.product == HostProduct::elements ? 1 : 0)) return false;
    }
    return true;
}
static_assert(has_each_dense_product(), "dense_products has one row for each format of elements without scales");

/// How a format of elements without scales is multiplied; nothing for others.
[[nodiscard]] inline ProductKernel dense_kernel(WeightFormat format, IsaLevel level) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (level == IsaLevel::amx && format == WeightFormat::bf16) return amx::full_bf16_kernel<>;
#endif
    for (auto const& row : dense_products) {
        if (row.format != format) continue;
        auto* const multiply = level >= IsaLevel::avx512 ? row.avx512
                               : level >= IsaLevel::avx2 ? row.avx2
                               : level >= IsaLevel::neon ? row.neon
                                                         : row.portable;
        // A level of other processors than the program's: nothing asks for it but who lists what there is.
        return {nullptr, nullptr, multiply == nullptr ? row.portable : multiply};
    }
    return {};
}

/// How bf16 weights are multiplied by activations that are rounded to bf16.
[[nodiscard]] inline ProductKernel rounded_bf16_kernel([[maybe_unused]] IsaLevel level) {
#if defined(SHARDWISE_HAS_X86_LEVELS)
    if (level == IsaLevel::amx) return amx::rounded_bf16_kernel<>;
    if (level >= IsaLevel::avx512_bf16) return avx512_bf16::rounded_kernel;
    if (level >= IsaLevel::avx512) return rounded_floats_kernel<&avx512::multiply_bf16>;
    if (level >= IsaLevel::avx2) return rounded_floats_kernel<&avx2::multiply_bf16>;
#elif defined(SHARDWISE_HAS_ARM_LEVELS)
    if (level >= IsaLevel::neon) return rounded_floats_kernel<&neon::multiply_bf16>;
#endif
    return rounded_floats_kernel<&portable::multiply_bf16>;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
