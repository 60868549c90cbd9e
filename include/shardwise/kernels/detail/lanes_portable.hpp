// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/core/unfused.hpp>
#include <shardwise/kernels/detail/attention_task.hpp>
#include <shardwise/kernels/detail/row_task.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_UNFUSED_BEGIN

namespace detail::kernels_portable {

inline constexpr std::int64_t lanes = 4;
inline constexpr int tile_rows = 2;

/// Four floats, in the vector registers of whatever the program is compiled for: g++ and clang know these types everywhere.
using Floats [[gnu::vector_size(16)]] = float;
using Mask [[gnu::vector_size(16)]] = std::int32_t;
using DoublePair [[gnu::vector_size(16)]] = double;

SHARDWISE_ALWAYS_INLINE Floats splat(float value) {
    return Floats{value, value, value, value};
}
SHARDWISE_ALWAYS_INLINE Floats iota() {
    return Floats{0.0F, 1.0F, 2.0F, 3.0F};
}
template <class T>
SHARDWISE_ALWAYS_INLINE Floats load(T const* from) {
    return Floats{static_cast<float>(from[0]), static_cast<float>(from[1]), static_cast<float>(from[2]),
                  static_cast<float>(from[3])};
}
template <class T>
SHARDWISE_ALWAYS_INLINE Floats load_part(T const* from, std::int64_t count) {
    Floats value = splat(0.0F);
    for (std::int64_t i = 0; i < count; ++i) value[i] = static_cast<float>(from[i]);
    return value;
}
template <class T>
SHARDWISE_ALWAYS_INLINE void store(T* to, Floats value) {
    for (std::int64_t i = 0; i < lanes; ++i) to[i] = T(value[i]);
}
template <class T>
SHARDWISE_ALWAYS_INLINE void store_part(T* to, std::int64_t count, Floats value) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = T(value[i]);
}

SHARDWISE_ALWAYS_INLINE Floats add(Floats a, Floats b) {
    return a + b;
}
SHARDWISE_ALWAYS_INLINE Floats subtract(Floats a, Floats b) {
    return a - b;
}
SHARDWISE_ALWAYS_INLINE Floats multiply(Floats a, Floats b) {
    return a * b;
}
SHARDWISE_ALWAYS_INLINE Floats divide(Floats a, Floats b) {
    return a / b;
}
/// a * b + c where it is one of many addends.
SHARDWISE_ALWAYS_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
    return a * b + c;
}
/// The same of an element that is no sum.
SHARDWISE_ALWAYS_INLINE Floats product_plus(Floats a, Floats b, Floats c) {
    return multiply_add(a, b, c);
}
SHARDWISE_ALWAYS_INLINE Mask is_less(Floats a, Floats b) {
    return a < b;
}
SHARDWISE_ALWAYS_INLINE Floats select(Mask mask, Floats yes, Floats no) {
    return (Floats)((mask & (Mask)yes) | (~mask & (Mask)no));
}
SHARDWISE_ALWAYS_INLINE Floats max(Floats a, Floats b) {
    return select(a > b, a, b);
}
SHARDWISE_ALWAYS_INLINE Floats min(Floats a, Floats b) {
    return select(a < b, a, b);
}
SHARDWISE_ALWAYS_INLINE Floats magnitude(Floats a) {
    return (Floats)((Mask)a & (Mask{} + 0x7FFFFFFF));
}
SHARDWISE_ALWAYS_INLINE bool has_nan(Floats a) {
    Mask const same = a == a;
    return (same[0] & same[1] & same[2] & same[3]) == 0;
}
/// To the nearest whole number, for values below 2^22.
SHARDWISE_ALWAYS_INLINE Floats round(Floats a) {
    Floats const shift = splat(12582912.0F);
    return (a + shift) - shift;
}
SHARDWISE_ALWAYS_INLINE Floats power_of_two(Mask exponent) {
    return (Floats)((exponent + 127) << 23);
}
/// In two steps, so that results below the smallest normal number and infinity are reached; exponents within +-250.
SHARDWISE_ALWAYS_INLINE Floats scale_by_power(Floats a, Floats exponent) {
    Mask const whole = __builtin_convertvector(exponent, Mask);
    Mask const half = whole >> 1;
    return a * power_of_two(half) * power_of_two(whole - half);
}
SHARDWISE_ALWAYS_INLINE Floats swap_pairs(Floats a) {
    return Floats{a[1], a[0], a[3], a[2]};
}
SHARDWISE_ALWAYS_INLINE float reduce_max(Floats a) {
    float greatest = a[0];
    for (std::int64_t i = 1; i < lanes; ++i) greatest = a[i] > greatest ? a[i] : greatest;
    return greatest;
}

struct Doubles {
    DoublePair low;
    DoublePair high;
};
SHARDWISE_ALWAYS_INLINE Doubles splat_double(double value) {
    return {DoublePair{value, value}, DoublePair{value, value}};
}
SHARDWISE_ALWAYS_INLINE Doubles widen(Floats a) {
    return {DoublePair{static_cast<double>(a[0]), static_cast<double>(a[1])},
            DoublePair{static_cast<double>(a[2]), static_cast<double>(a[3])}};
}
SHARDWISE_ALWAYS_INLINE Floats narrow(Doubles a) {
    return Floats{static_cast<float>(a.low[0]), static_cast<float>(a.low[1]), static_cast<float>(a.high[0]),
                  static_cast<float>(a.high[1])};
}
SHARDWISE_ALWAYS_INLINE Doubles add(Doubles a, Doubles b) {
    return {a.low + b.low, a.high + b.high};
}
SHARDWISE_ALWAYS_INLINE Doubles subtract(Doubles a, Doubles b) {
    return {a.low - b.low, a.high - b.high};
}
SHARDWISE_ALWAYS_INLINE Doubles multiply(Doubles a, Doubles b) {
    return {a.low * b.low, a.high * b.high};
}
SHARDWISE_ALWAYS_INLINE Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
    return {a.low * b.low + c.low, a.high * b.high + c.high};
}
SHARDWISE_ALWAYS_INLINE Doubles add_square(Doubles a, Doubles c) {
    return {a.low * a.low + c.low, a.high * a.high + c.high};
}
SHARDWISE_ALWAYS_INLINE double reduce_add(Doubles a) {
    DoublePair const both = a.low + a.high;
    return both[0] + both[1];
}

SHARDWISE_ALWAYS_INLINE void transpose(Floats (&t)[4]) {
    Floats const a = t[0];
    Floats const b = t[1];
    Floats const c = t[2];
    Floats const d = t[3];
    for (std::int64_t i = 0; i < lanes; ++i) t[i] = Floats{a[i], b[i], c[i], d[i]};
}

// Each needs those before it.
// clang-format off
SHARDWISE_TARGET_QUIET
#include <shardwise/kernels/detail/row_kernels.inc>
#include <shardwise/kernels/detail/score_kernels.inc>
#include <shardwise/kernels/detail/attention_kernels.inc>
SHARDWISE_TARGET_LOUD
// clang-format on

}  // namespace detail::kernels_portable

SHARDWISE_UNFUSED_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
