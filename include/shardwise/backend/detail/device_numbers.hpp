// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/quant/half_bits.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// The conversions of quant/half_bits.hpp as device code may call them: constexpr functions of the host are not callable
// there without a compiler flag that a user would have to know.

[[nodiscard]] SHARDWISE_DEVICE inline float float_of_bits(std::uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}
[[nodiscard]] SHARDWISE_DEVICE inline std::uint32_t bits_of_float(float value) {
    return __builtin_bit_cast(std::uint32_t, value);
}

/// The value of an IEEE half.
[[nodiscard]] SHARDWISE_DEVICE inline float half_value(std::uint16_t half) {
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
#elif defined(__HIP_DEVICE_COMPILE__)
    return static_cast<float>(__builtin_bit_cast(_Float16, half));
#else
    return from_f16(half);
#endif
}

/// The nearest IEEE half, ties to even.
[[nodiscard]] SHARDWISE_DEVICE inline std::uint16_t half_bits(float value) {
#if defined(__CUDA_ARCH__)
    std::uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#elif defined(__HIP_DEVICE_COMPILE__)
    return __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(value));
#else
    return to_f16(value);
#endif
}

/// The nearest bfloat16, ties to even; NaNs stay NaNs.
[[nodiscard]] SHARDWISE_DEVICE inline std::uint16_t brain_bits(float value) {
    auto const bits = bits_of_float(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

/// An element as the float that arithmetic is done in.
[[nodiscard]] SHARDWISE_DEVICE inline float widen(float value) {
    return value;
}
[[nodiscard]] SHARDWISE_DEVICE inline float widen(Bfloat16 const& value) {
    return float_of_bits(static_cast<std::uint32_t>(value.bits) << 16U);
}
[[nodiscard]] SHARDWISE_DEVICE inline float widen(Float16 const& value) {
    return half_value(value.bits);
}

/// Stores a float as an element, rounded to the nearest.
SHARDWISE_DEVICE inline void narrow(float value, float& element) {
    element = value;
}
SHARDWISE_DEVICE inline void narrow(float value, Bfloat16& element) {
    element.bits = brain_bits(value);
}
SHARDWISE_DEVICE inline void narrow(float value, Float16& element) {
    element.bits = half_bits(value);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
