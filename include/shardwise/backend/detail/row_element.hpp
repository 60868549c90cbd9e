// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/quant/half_bits.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a kernel's rows are stored in, where a kernel for each would be one too many: those that read activations once, into
/// shared memory or registers, are told by their call. All threads of a launch take the same branch.
enum class RowElement : std::uint8_t { f32, bf16, f16 };

template <class T>
inline constexpr RowElement row_element = T::this_type_is_not_an_element_of_rows;
template <>
inline constexpr RowElement row_element<float> = RowElement::f32;
template <>
inline constexpr RowElement row_element<Bfloat16> = RowElement::bf16;
template <>
inline constexpr RowElement row_element<Float16> = RowElement::f16;

[[nodiscard]] SHARDWISE_DEVICE inline float half_element_value(std::uint16_t bits, RowElement element) {
    return element == RowElement::bf16 ? float_of_bits(static_cast<std::uint32_t>(bits) << 16U) : half_value(bits);
}
[[nodiscard]] SHARDWISE_DEVICE inline std::uint16_t half_element_bits(float value, RowElement element) {
    return element == RowElement::bf16 ? brain_bits(value) : half_bits(value);
}

/// The element `at` of `data`.
[[nodiscard]] SHARDWISE_DEVICE inline float load_element(void const* data, std::int64_t at, RowElement element) {
    if (element == RowElement::f32) return static_cast<float const*>(data)[at];
    return half_element_value(static_cast<std::uint16_t const*>(data)[at], element);
}
SHARDWISE_DEVICE inline void store_element(void* data, std::int64_t at, float value, RowElement element) {
    if (element == RowElement::f32) {
        static_cast<float*>(data)[at] = value;
    } else {
        static_cast<std::uint16_t*>(data)[at] = half_element_bits(value, element);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
