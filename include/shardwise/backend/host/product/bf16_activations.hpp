// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What ProductActivations::bf16 makes of a row where there are no tiles of bf16: floats that bf16 holds.
[[nodiscard]] inline std::int64_t rounded_float_bytes(std::int64_t inputs) {
    return inputs * std::int64_t{sizeof(float)};
}
inline void prepare_rounded_floats(float const* row, std::int64_t inputs, std::byte* prepared) {
    auto* const to = reinterpret_cast<float*>(prepared);
    for (std::int64_t i = 0; i < inputs; ++i) to[i] = from_bf16(to_bf16(row[i]));
}

/// The product of what was rounded, with the sums of `multiply`.
template <void (*multiply)(ProductTask const&)>
inline void multiply_rounded_floats(ProductTask const& task) {
    auto part = task;
    part.in = reinterpret_cast<float const*>(task.prepared);
    part.in_stride = task.prepared_stride / std::int64_t{sizeof(float)};
    multiply(part);
}

template <void (*multiply)(ProductTask const&)>
inline constexpr ProductKernel rounded_floats_kernel{.prepared_bytes = &rounded_float_bytes,
                                                     .prepare = &prepare_rounded_floats,
                                                     .multiply = &multiply_rounded_floats<multiply>,
                                                     .begins_anywhere = true,
                                                     .prepared_at_once = prepared_of_a_prompt};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
