// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/kernels/detail/attention_task.hpp>
#include <shardwise/kernels/detail/row_task.hpp>
#include <shardwise/quant/half_types.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(SHARDWISE_HAS_ARM_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_NEON

namespace detail::kernels_neon {

using Floats = float32x4_t;
using Mask = uint32x4_t;
inline constexpr std::int64_t lanes = 4;
inline constexpr int tile_rows = 4;

SHARDWISE_ALWAYS_INLINE Floats splat(float value) {
    return vdupq_n_f32(value);
}
SHARDWISE_ALWAYS_INLINE Floats iota() {
    return Floats{0.0F, 1.0F, 2.0F, 3.0F};
}
SHARDWISE_ALWAYS_INLINE Floats widen_bf16(uint16x4_t halves) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(halves), 16));
}
SHARDWISE_ALWAYS_INLINE Floats widen_f16(uint16x4_t halves) {
    return vcvt_f32_f16(vreinterpret_f16_u16(halves));
}
SHARDWISE_ALWAYS_INLINE uint16x4_t load_halves(void const* from) {
    uint16x4_t halves;
    std::memcpy(&halves, from, sizeof halves);
    return halves;
}
SHARDWISE_ALWAYS_INLINE uint16x4_t load_halves(void const* from, std::int64_t count) {
    uint16x4_t halves = vdup_n_u16(0);
    for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(reinterpret_cast<char*>(&halves) + 2 * i, static_cast<char const*>(from) + 2 * i, 2);
    return halves;
}
SHARDWISE_ALWAYS_INLINE void store_halves(void* to, std::int64_t count, uint16x4_t value) {
    std::memcpy(to, &value, static_cast<std::size_t>(2 * count));
}
SHARDWISE_ALWAYS_INLINE Floats load(float const* from) {
    return vld1q_f32(from);
}
SHARDWISE_ALWAYS_INLINE Floats load(Bfloat16 const* from) {
    return widen_bf16(load_halves(from));
}
SHARDWISE_ALWAYS_INLINE Floats load(Float16 const* from) {
    return widen_f16(load_halves(from));
}
SHARDWISE_ALWAYS_INLINE Floats load(std::int8_t const* from) {
    int8x8_t bytes = vdup_n_s8(0);
    std::memcpy(&bytes, from, 4);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}
SHARDWISE_ALWAYS_INLINE Floats load_part(std::int8_t const* from, std::int64_t count) {
    std::int8_t bytes[4] = {};
    for (std::int64_t i = 0; i < count; ++i) bytes[i] = from[i];
    return load(bytes);
}
SHARDWISE_ALWAYS_INLINE Floats load_part(float const* from, std::int64_t count) {
    float values[4] = {};
    for (std::int64_t i = 0; i < count; ++i) values[i] = from[i];
    return load(values);
}
SHARDWISE_ALWAYS_INLINE Floats load_part(Bfloat16 const* from, std::int64_t count) {
    return widen_bf16(load_halves(from, count));
}
SHARDWISE_ALWAYS_INLINE Floats load_part(Float16 const* from, std::int64_t count) {
    return widen_f16(load_halves(from, count));
}
SHARDWISE_ALWAYS_INLINE uint16x4_t narrow_bf16(Floats value) {
    uint32x4_t const bits = vreinterpretq_u32_f32(value);
    uint32x4_t const odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t const rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFF)));
    uint32x4_t const quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(value, value), rounded, quiet), 16);
}
SHARDWISE_ALWAYS_INLINE uint16x4_t narrow_f16(Floats value) {
    return vreinterpret_u16_f16(vcvt_f16_f32(value));
}
SHARDWISE_ALWAYS_INLINE void store(float* to, Floats value) {
    vst1q_f32(to, value);
}
SHARDWISE_ALWAYS_INLINE void store(Bfloat16* to, Floats value) {
    store_halves(to, 4, narrow_bf16(value));
}
SHARDWISE_ALWAYS_INLINE void store(Float16* to, Floats value) {
    store_halves(to, 4, narrow_f16(value));
}
SHARDWISE_ALWAYS_INLINE void store_part(float* to, std::int64_t count, Floats value) {
    std::memcpy(to, &value, static_cast<std::size_t>(4 * count));
}
SHARDWISE_ALWAYS_INLINE void store_part(Bfloat16* to, std::int64_t count, Floats value) {
    store_halves(to, count, narrow_bf16(value));
}
SHARDWISE_ALWAYS_INLINE void store_part(Float16* to, std::int64_t count, Floats value) {
    store_halves(to, count, narrow_f16(value));
}

SHARDWISE_ALWAYS_INLINE Floats add(Floats a, Floats b) {
    return vaddq_f32(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats subtract(Floats a, Floats b) {
    return vsubq_f32(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats multiply(Floats a, Floats b) {
    return vmulq_f32(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats divide(Floats a, Floats b) {
    return vdivq_f32(a, b);
}
/// a * b + c where it is one of many addends.
SHARDWISE_ALWAYS_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
    return vfmaq_f32(c, a, b);
}
/// The same of an element that is no sum: with the bits of the level portable.
SHARDWISE_ALWAYS_INLINE Floats product_plus(Floats a, Floats b, Floats c) {
    return vaddq_f32(vmulq_f32(a, b), c);
}
SHARDWISE_ALWAYS_INLINE Mask is_less(Floats a, Floats b) {
    return vcltq_f32(a, b);
}
SHARDWISE_ALWAYS_INLINE Floats select(Mask mask, Floats yes, Floats no) {
    return vbslq_f32(mask, yes, no);
}
// Of a NaN the second is kept, as at all levels; vmaxq_f32 would give NaN.
SHARDWISE_ALWAYS_INLINE Floats max(Floats a, Floats b) {
    return select(vcgtq_f32(a, b), a, b);
}
SHARDWISE_ALWAYS_INLINE Floats min(Floats a, Floats b) {
    return select(vcltq_f32(a, b), a, b);
}
SHARDWISE_ALWAYS_INLINE Floats magnitude(Floats a) {
    return vabsq_f32(a);
}
SHARDWISE_ALWAYS_INLINE bool has_nan(Floats a) {
    return vminvq_u32(vceqq_f32(a, a)) == 0;
}
SHARDWISE_ALWAYS_INLINE Floats round(Floats a) {
    return vrndnq_f32(a);
}
SHARDWISE_ALWAYS_INLINE Floats power_of_two(int32x4_t exponent) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(exponent, vdupq_n_s32(127)), 23));
}
/// In two steps, so that results below the smallest normal number and infinity are reached; exponents within +-250.
SHARDWISE_ALWAYS_INLINE Floats scale_by_power(Floats a, Floats exponent) {
    int32x4_t const whole = vcvtq_s32_f32(exponent);
    int32x4_t const half = vshrq_n_s32(whole, 1);
    return vmulq_f32(vmulq_f32(a, power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
}
SHARDWISE_ALWAYS_INLINE Floats swap_pairs(Floats a) {
    return vrev64q_f32(a);
}
SHARDWISE_ALWAYS_INLINE float reduce_max(Floats a) {
    float values[4];
    vst1q_f32(values, a);
    float greatest = values[0];
    for (int i = 1; i < 4; ++i) greatest = values[i] > greatest ? values[i] : greatest;
    return greatest;
}

struct Doubles {
    float64x2_t low;
    float64x2_t high;
};
SHARDWISE_ALWAYS_INLINE Doubles splat_double(double value) {
    return {vdupq_n_f64(value), vdupq_n_f64(value)};
}
SHARDWISE_ALWAYS_INLINE Doubles widen(Floats a) {
    return {vcvt_f64_f32(vget_low_f32(a)), vcvt_high_f64_f32(a)};
}
SHARDWISE_ALWAYS_INLINE Floats narrow(Doubles a) {
    return vcvt_high_f32_f64(vcvt_f32_f64(a.low), a.high);
}
SHARDWISE_ALWAYS_INLINE Doubles add(Doubles a, Doubles b) {
    return {vaddq_f64(a.low, b.low), vaddq_f64(a.high, b.high)};
}
SHARDWISE_ALWAYS_INLINE Doubles subtract(Doubles a, Doubles b) {
    return {vsubq_f64(a.low, b.low), vsubq_f64(a.high, b.high)};
}
SHARDWISE_ALWAYS_INLINE Doubles multiply(Doubles a, Doubles b) {
    return {vmulq_f64(a.low, b.low), vmulq_f64(a.high, b.high)};
}
SHARDWISE_ALWAYS_INLINE Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
    return {vfmaq_f64(c.low, a.low, b.low), vfmaq_f64(c.high, a.high, b.high)};
}
SHARDWISE_ALWAYS_INLINE Doubles add_square(Doubles a, Doubles c) {
    return multiply_add(a, a, c);
}
SHARDWISE_ALWAYS_INLINE double reduce_add(Doubles a) {
    return vaddvq_f64(vaddq_f64(a.low, a.high));
}

SHARDWISE_ALWAYS_INLINE void transpose(Floats (&t)[4]) {
    float64x2_t const a = vreinterpretq_f64_f32(vtrn1q_f32(t[0], t[1]));
    float64x2_t const b = vreinterpretq_f64_f32(vtrn2q_f32(t[0], t[1]));
    float64x2_t const c = vreinterpretq_f64_f32(vtrn1q_f32(t[2], t[3]));
    float64x2_t const d = vreinterpretq_f64_f32(vtrn2q_f32(t[2], t[3]));
    t[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    t[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    t[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    t[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}
// Each needs those before it.
// clang-format off
#include <shardwise/kernels/detail/row_kernels.inc>
#include <shardwise/kernels/detail/score_kernels.inc>
#include <shardwise/kernels/detail/attention_kernels.inc>
// clang-format on

}  // namespace detail::kernels_neon

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
