// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/op/activation_kind.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// What kernels/detail/row_kernels.inc computes by lanes, one value at a time: the same series and the same special values on
// every vendor's devices, and no call into a vendor's library.

/// 2^power for powers of normal floats.
[[nodiscard]] SHARDWISE_DEVICE inline float power_of_two_float(std::int32_t power) {
    return float_of_bits(static_cast<std::uint32_t>(power + 127) << 23U);
}

/// exp(x), within two units in the last place; infinite and zero where that is, NaN of NaN.
///
/// Source  Cephes expf.c (the polynomial)
[[nodiscard]] SHARDWISE_DEVICE inline float device_exp(float x) {
    if (x != x) return x;
    auto const bounded = x < -110.0F ? -110.0F : x > 90.0F ? 90.0F : x;
    // Adding this much leaves the nearest whole number.
    constexpr float shift = 12582912.0F;
    auto const power = (bounded * 1.44269504F + shift) - shift;
    auto const rest = (bounded - power * 0.693359375F) + power * 2.12194440e-4F;
    auto value = 1.9875691500e-4F;
    value = value * rest + 1.3981999507e-3F;
    value = value * rest + 8.3334519073e-3F;
    value = value * rest + 4.1665795894e-2F;
    value = value * rest + 1.6666665459e-1F;
    value = value * rest + 5.0000001201e-1F;
    value = (value * (rest * rest) + rest) + 1.0F;
    // In two steps: the power of a subnormal result, or of an infinite one, is no float's.
    auto const whole = static_cast<std::int32_t>(power);
    auto const half = whole / 2;
    return value * power_of_two_float(half) * power_of_two_float(whole - half);
}

/// exp(x) - 1 for x of at most 0, within three units in the last place.
///
/// Source  Cephes expf.c (the polynomial)
[[nodiscard]] SHARDWISE_DEVICE inline float device_expm1(float x) {
    if (x != x) return x;
    auto const bounded = x < -30.0F ? -30.0F : x;
    constexpr float shift = 12582912.0F;
    auto const power = (bounded * 1.44269504F + shift) - shift;
    auto const rest = (bounded - power * 0.693359375F) + power * 2.12194440e-4F;
    auto value = 1.9875691500e-4F;
    value = value * rest + 1.3981999507e-3F;
    value = value * rest + 8.3334519073e-3F;
    value = value * rest + 4.1665795894e-2F;
    value = value * rest + 1.6666665459e-1F;
    value = value * rest + 5.0000001201e-1F;
    value = value * (rest * rest) + rest;
    // exp(rest) - 1 is `value`; a power of two times exp(rest), less 1.
    auto const scale = power_of_two_float(static_cast<std::int32_t>(power));
    return scale * value + (scale - 1.0F);
}

/// log(x) of a normal float, within two units in the last place where x is at least 1.
///
/// Source  log(2^n m) = n log 2 + 2 artanh((m - 1) / (m + 1)) with m from sqrt(1/2) to sqrt(2), by its series: 2^-28 of it is left
[[nodiscard]] SHARDWISE_DEVICE inline float device_log(float x) {
    auto const bits = bits_of_float(x);
    // 0x3F3504F3 is sqrt(1/2).
    auto const power = static_cast<std::int32_t>(bits - 0x3F3504F3U) >> 23;
    auto const mantissa = float_of_bits(bits - (static_cast<std::uint32_t>(power) << 23U));
    auto const ratio = (mantissa - 1.0F) / (mantissa + 1.0F);
    auto const square = ratio * ratio;
    auto series = 1.0F / 9.0F;
    series = series * square + 1.0F / 7.0F;
    series = series * square + 1.0F / 5.0F;
    series = series * square + 1.0F / 3.0F;
    auto const whole = static_cast<float>(power);
    auto const rest = 2.0F * (ratio * square * series + ratio) - whole * 2.12194440e-4F;
    return whole * 0.693359375F + rest;
}

/// log(1 + exp(x)), within three units in the last place.
///
/// Source  log(1 + y) = 2 artanh(y / (2 + y)) for y of at most 1, by its series: 2^-27 of it is left
[[nodiscard]] SHARDWISE_DEVICE inline float device_softplus(float x) {
    auto const small = device_exp(x < 0.0F ? x : -x);
    auto const ratio = small / (2.0F + small);
    auto const square = ratio * ratio;
    auto series = 1.0F / 15.0F;
    series = series * square + 1.0F / 13.0F;
    series = series * square + 1.0F / 11.0F;
    series = series * square + 1.0F / 9.0F;
    series = series * square + 1.0F / 7.0F;
    series = series * square + 1.0F / 5.0F;
    series = series * square + 1.0F / 3.0F;
    auto const logarithm = 2.0F * (ratio * square * series + ratio);
    return x > 0.0F ? x + logarithm : logarithm;
}

/// tanh(x), within three units in the last place.
///
/// Source  Cephes tanhf.c (the polynomial)
[[nodiscard]] SHARDWISE_DEVICE inline float device_tanh(float x) {
    auto const size = x < 0.0F ? -x : x;
    if (size < 0.625F) {
        auto const square = x * x;
        auto value = -5.70498872745e-3F;
        value = value * square + 2.06390887954e-2F;
        value = value * square - 5.37397155531e-2F;
        value = value * square + 1.33314422036e-1F;
        value = value * square - 3.33332819422e-1F;
        return value * square * x + x;
    }
    auto const far = 1.0F - 2.0F / (device_exp(size + size) + 1.0F);
    return x < 0.0F ? -far : far;
}

/// The share of the normal distribution below x, 0.5 erfc(-x / sqrt(2)), with its relative accuracy on both sides.
///
/// Source  Shepherd and Laframboise, Math. Comp. 36 (1981), as in row_kernels.inc
[[nodiscard]] SHARDWISE_DEVICE inline float device_normal_share(float x) {
    auto const density = device_exp(x * x * -0.5F);
    auto const scaled = (x < 0.0F ? -x : x) * 0.7071067811865476F;
    // A NaN is kept: it is not greater.
    auto const t = scaled > 14.5F ? 14.5F : scaled;
    auto const u = (t - 2.0F) / (t + 2.0F);
    auto value = 6.554174615303054e-05F;
    value = value * u - 0.00028997877961955965F;
    value = value * u - 0.0012573242420330644F;
    value = value * u + 0.0012000622227787971F;
    value = value * u + 0.0086186733096838F;
    value = value * u - 0.008020716719329357F;
    value = value * u - 0.054197270423173904F;
    value = value * u + 0.16405026614665985F;
    value = value * u - 0.16603216528892517F;
    value = value * u - 0.09276380389928818F;
    value = value * u + 1.2769783735275269F;
    auto const half = 0.5F * density * value / (2.0F * t + 1.0F);
    return x < 0.0F ? half : 1.0F - half;
}

/// One of the activations of one input; xielu, a kernel of its own, is NaN.
[[nodiscard]] SHARDWISE_DEVICE inline float device_activate(float x, ActivationKind kind) {
    // Most are numerator / (1 + exp(argument)).
    auto numerator = x;
    auto argument = -x;
    switch (kind) {
        case ActivationKind::silu:
            break;
        case ActivationKind::gelu:
            return x * device_normal_share(x);
        case ActivationKind::gelu_tanh:
        case ActivationKind::gelu_new:
        case ActivationKind::gelu_fast:
            // 0.5 x (1 + tanh u) = x / (1 + exp(-2 u)), which does not cancel.
            argument = (x * x * x * 0.044715F + x) * -1.5957691216057308F;
            break;
        case ActivationKind::relu:
            return x < 0.0F ? 0.0F : x;
        case ActivationKind::relu_squared:
            return x < 0.0F ? 0.0F : x * x;
        case ActivationKind::tanh:
            return device_tanh(x);
        case ActivationKind::quick_gelu:
        case ActivationKind::swiglu_clamped:
            argument = x * -1.702F;
            break;
        case ActivationKind::sigmoid:
            numerator = 1.0F;
            break;
        case ActivationKind::xielu:
            return float_of_bits(0x7FC00000U);
    }
    return numerator / (1.0F + device_exp(argument));
}

/// activation(gate) * up; swiglu_clamped is gpt_oss's.
[[nodiscard]] SHARDWISE_DEVICE inline float device_gate(float gate, float up, ActivationKind kind) {
    if (kind != ActivationKind::swiglu_clamped) return device_activate(gate, kind) * up;
    auto const bounded = up > 7.0F ? 7.0F : up < -7.0F ? -7.0F : up;
    return device_activate(gate > 7.0F ? 7.0F : gate, kind) * (bounded + 1.0F);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
