#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/dense_portable.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/op/weight_format.hpp>

namespace shardwise::inline v0_2_0 {

namespace detail {

/// How a format is multiplied at a level that the machine has.
[[nodiscard]] inline ProductKernel product_kernel(WeightFormat format, [[maybe_unused]] IsaLevel level) {
    switch (format) {
        case WeightFormat::bf16:
            return {nullptr, nullptr, &portable::multiply_bf16};
        case WeightFormat::f16:
            return {nullptr, nullptr, &portable::multiply_f16};
        default:
            return {nullptr, nullptr, &portable::multiply_f32};
    }
}

}  // namespace detail

}  // namespace shardwise::inline v0_2_0
