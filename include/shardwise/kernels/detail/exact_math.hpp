// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/core/unfused.hpp>

#include <cstdint>

// Arithmetic with the same bits on hosts and devices: device compilers fuse a product with the addition after it unless told.

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

SHARDWISE_UNFUSED_BEGIN

/// a * b, rounded, whatever is done with it.
[[nodiscard]] SHARDWISE_DEVICE inline float product_of(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
#if defined(__HIP_DEVICE_COMPILE__)
#pragma clang fp contract(off)
#endif
    return a * b;
#endif
}

/// exp(x), within two units in the last place; infinite and zero where that is, NaN of NaN.
///
/// Source  Cephes expf.c (the polynomial)
[[nodiscard]] SHARDWISE_DEVICE inline float exact_exp(float x) {
    if (x != x) return x;
    auto const bounded = x < -110.0F ? -110.0F : x > 90.0F ? 90.0F : x;
    // Adding this much leaves the nearest whole number.
    constexpr float shift = 12582912.0F;
    auto const power = (product_of(bounded, 1.44269504F) + shift) - shift;
    auto const rest = (bounded - product_of(power, 0.693359375F)) + product_of(power, 2.12194440e-4F);
    auto value = 1.9875691500e-4F;
    value = product_of(value, rest) + 1.3981999507e-3F;
    value = product_of(value, rest) + 8.3334519073e-3F;
    value = product_of(value, rest) + 4.1665795894e-2F;
    value = product_of(value, rest) + 1.6666665459e-1F;
    value = product_of(value, rest) + 5.0000001201e-1F;
    value = (product_of(value, product_of(rest, rest)) + rest) + 1.0F;
    // In two steps: the power of a subnormal result, or of an infinite one, is no float's.
    auto const whole = static_cast<std::int32_t>(power);
    auto const half = whole / 2;
    auto const first = float_of_bits(static_cast<std::uint32_t>(half + 127) << 23U);
    auto const second = float_of_bits(static_cast<std::uint32_t>(whole - half + 127) << 23U);
    return product_of(product_of(value, first), second);
}

SHARDWISE_UNFUSED_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
