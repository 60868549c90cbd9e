// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/core/unfused.hpp>
#include <shardwise/kernels/detail/exact_math.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/quant/nf4_list.hpp>
#include <shardwise/quant/weight_format_kind.hpp>

#include <cstddef>
#include <cstdint>

// The encoders of quant/encode_*.hpp as device code has them: the same bits, without doubles, and with the extremes of a span found by
// several threads. What is `first` in a span stays so whichever thread has seen it.

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

SHARDWISE_UNFUSED_BEGIN

/// a / b, rounded once.
[[nodiscard]] SHARDWISE_DEVICE inline float quotient_of(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}
[[nodiscard]] SHARDWISE_DEVICE inline float reciprocal_of(float value) {
    return value == 0.0F ? 0.0F : quotient_of(1.0F, value);
}
[[nodiscard]] SHARDWISE_DEVICE inline float magnitude_of(float value) {
    return value < 0.0F ? -value : value;
}

/// The NaN that scales of spans with a NaN are: a vendor's own has other bits.
[[nodiscard]] SHARDWISE_DEVICE inline float quiet_nan() {
    return float_of_bits(0x7FC00000U);
}
/// A scale as a half; NaN where the span has one.
[[nodiscard]] SHARDWISE_DEVICE inline std::uint16_t scale_half(float scale, bool has_nan) {
    return has_nan || scale != scale ? std::uint16_t{0x7E00} : half_bits(scale);
}
/// The nearest half with the payload of a NaN, which vendors' conversions drop.
[[nodiscard]] SHARDWISE_DEVICE inline std::uint16_t half_with_payload(float value) {
    auto const bits = bits_of_float(value);
    if (value == value) return half_bits(value);
    return static_cast<std::uint16_t>((bits >> 16U & 0x8000U) | 0x7E00U | (bits >> 13U & 0x3FFU));
}

/// The integer part, within bounds; 0 for what is no number.
[[nodiscard]] SHARDWISE_DEVICE inline int truncated_within(float value, int least, int greatest) {
    if (value != value) return 0;
    if (value <= static_cast<float>(least)) return least;
    if (value >= static_cast<float>(greatest)) return greatest;
    return static_cast<int>(value);
}
/// The nearest integer, halves away from zero or to even. What is left of the integer part is exact.
template <bool is_even>
[[nodiscard]] SHARDWISE_DEVICE int rounded_within(float value, int least, int greatest) {
    auto const whole = truncated_within(value, least, greatest);
    auto const rest = value - static_cast<float>(whole);
    bool const goes_on = !is_even || whole % 2 != 0;
    if ((rest > 0.5F || (rest == 0.5F && goes_on)) && whole < greatest) return whole + 1;
    if ((rest < -0.5F || (rest == -0.5F && goes_on)) && whole > least) return whole - 1;
    return whole;
}

// What threads find of a span: `see` of element 4 * place + i, in ascending order; `merge` what another has seen, whose
// words `moved` brings.

/// The greatest magnitude; NaN where there is one.
struct SeenMagnitude {
    float magnitude = 0.0F;

    SHARDWISE_DEVICE void see(float value, std::uint32_t, int) {
        auto const size = magnitude_of(value);
        if (size > magnitude || size != size) magnitude = size;
    }
    SHARDWISE_DEVICE void merge(SeenMagnitude const& other) {
        if (other.magnitude > magnitude || other.magnitude != other.magnitude) magnitude = other.magnitude;
    }
    template <class Move>
    [[nodiscard]] SHARDWISE_DEVICE SeenMagnitude moved(Move const& move) const {
        return {move(magnitude)};
    }
    [[nodiscard]] SHARDWISE_DEVICE bool has_nan() const { return magnitude != magnitude; }
};

/// The value farthest from zero, the first of equals. Places are below 2^30.
struct SeenFarthest {
    static constexpr std::uint32_t nan_bit = 0x80000000U;
    float farthest = 0.0F;
    std::uint32_t place = 0x3FFFFFFFU;

    SHARDWISE_DEVICE void see(float value, std::uint32_t four, int) {
        if (value != value) place |= nan_bit;
        if (magnitude_of(value) > magnitude_of(farthest)) {
            farthest = value;
            place = four | (place & nan_bit);
        }
    }
    SHARDWISE_DEVICE void merge(SeenFarthest const& other) {
        auto const nan = (place | other.place) & nan_bit;
        auto const own = magnitude_of(farthest);
        auto const its = magnitude_of(other.farthest);
        if (its > own || (its == own && (other.place & ~nan_bit) < (place & ~nan_bit))) {
            farthest = other.farthest;
            place = other.place;
        }
        place |= nan;
    }
    template <class Move>
    [[nodiscard]] SHARDWISE_DEVICE SeenFarthest moved(Move const& move) const {
        return {move(farthest), bits_of_float(move(float_of_bits(place)))};
    }
    [[nodiscard]] SHARDWISE_DEVICE bool has_nan() const { return (place & nan_bit) != 0; }
};

/// The least value, the first of equals (zeros have signs), and the greatest. Those of a span that begins with a NaN are NaN.
struct SeenRange {
    static constexpr std::uint32_t nan_bit = 0x80000000U;
    static constexpr std::uint32_t first_bit = 0x40000000U;
    float least = float_of_bits(0x7F800000U);
    float greatest = float_of_bits(0xFF800000U);
    std::uint32_t place = 0x3FFFFFFFU;

    SHARDWISE_DEVICE void see(float value, std::uint32_t four, int i) {
        auto const at = 4 * four + static_cast<std::uint32_t>(i);
        if (value != value) place |= nan_bit | (at == 0 ? first_bit : 0U);
        auto const flags = place & (nan_bit | first_bit);
        if (value < least) {
            least = value;
            place = at | flags;
        }
        if (value > greatest) greatest = value;
    }
    SHARDWISE_DEVICE void merge(SeenRange const& other) {
        constexpr auto both = nan_bit | first_bit;
        auto const flags = (place | other.place) & both;
        if (other.least < least || (other.least == least && (other.place & ~both) < (place & ~both))) {
            least = other.least;
            place = other.place;
        }
        if (other.greatest > greatest) greatest = other.greatest;
        place |= flags;
    }
    template <class Move>
    [[nodiscard]] SHARDWISE_DEVICE SeenRange moved(Move const& move) const {
        return {move(least), move(greatest), bits_of_float(move(float_of_bits(place)))};
    }
    [[nodiscard]] SHARDWISE_DEVICE bool has_nan() const { return (place & nan_bit) != 0; }
};

struct SeenNothing {
    SHARDWISE_DEVICE void see(float, std::uint32_t, int) {}
};

/// How the elements of a span become codes: what has to be Seen of it, the scale that is stored, and the code of a value.
template <WeightFormat format>
struct SpanEncoder;

template <>
struct SpanEncoder<WeightFormat::f32> {
    using Seen = SeenNothing;
    static constexpr int bits = 32;
    SHARDWISE_DEVICE static std::uint32_t code(float value) { return bits_of_float(value); }
};
template <>
struct SpanEncoder<WeightFormat::bf16> {
    using Seen = SeenNothing;
    static constexpr int bits = 16;
    SHARDWISE_DEVICE static std::uint32_t code(float value) { return brain_bits(value); }
};
template <>
struct SpanEncoder<WeightFormat::f16> {
    using Seen = SeenNothing;
    static constexpr int bits = 16;
    SHARDWISE_DEVICE static std::uint32_t code(float value) { return half_with_payload(value); }
};

/// quant/encode_int8.hpp.
template <>
struct SpanEncoder<WeightFormat::int8> {
    using Seen = SeenMagnitude;
    static constexpr int bits = 8;
    static constexpr int span = 0;
    float lift;
    float inverse;
    float scale;

    SHARDWISE_DEVICE explicit SpanEncoder(SeenMagnitude const& seen)
        : lift(seen.magnitude < 0x1p-100F ? 0x1p100F : 1.0F),
          inverse(seen.magnitude == 0.0F ? 0.0F : quotient_of(127.0F, product_of(seen.magnitude, lift))),
          scale(seen.has_nan() ? quiet_nan() : quotient_of(seen.magnitude, 127.0F)) {}
    [[nodiscard]] SHARDWISE_DEVICE std::uint32_t code(float value) const {
        auto const quotient = product_of(product_of(value, lift), inverse);
        return static_cast<std::uint32_t>(rounded_within<true>(quotient, -127, 127)) & 0xFFU;
    }
};

/// quant/encode_int4.hpp.
template <>
struct SpanEncoder<WeightFormat::int4> {
    using Seen = SeenFarthest;
    static constexpr int bits = 4;
    static constexpr int span = 0;
    std::uint16_t scale;
    float divisor;

    SHARDWISE_DEVICE explicit SpanEncoder(SeenFarthest const& seen)
        : scale(scale_half(quotient_of(seen.farthest, -8.0F), seen.has_nan())), divisor(half_value(scale)) {}
    [[nodiscard]] SHARDWISE_DEVICE std::uint32_t code(float value) const {
        auto const quotient = divisor == 0.0F ? 0.0F : quotient_of(value, divisor);
        return static_cast<std::uint32_t>(rounded_within<true>(quotient, -8, 7) + 8);
    }
};

/// quant/encode_bitsandbytes.hpp.
template <>
struct SpanEncoder<WeightFormat::nf4> {
    using Seen = SeenMagnitude;
    static constexpr int bits = 4;
    static constexpr int span = 64;
    float scale;
    float inverse;

    SHARDWISE_DEVICE explicit SpanEncoder(SeenMagnitude const& seen)
        : scale(seen.has_nan() ? quiet_nan() : seen.magnitude), inverse(reciprocal_of(scale)) {}
    [[nodiscard]] SHARDWISE_DEVICE std::uint32_t code(float value) const {
        constexpr float values[16] = {SHARDWISE_NF4_VALUES};
        auto const scaled = product_of(value, inverse);
        std::uint32_t code = 0;
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 15; ++i) code += scaled > (values[i] + values[i + 1]) / 2.0F ? 1U : 0U;
        return code;
    }
};

/// quant/encode_microscaling.hpp.
template <>
struct SpanEncoder<WeightFormat::mxfp4> {
    using Seen = SeenMagnitude;
    static constexpr int bits = 4;
    static constexpr int span = 32;
    std::uint8_t scale;
    float half_scale;

    SHARDWISE_DEVICE explicit SpanEncoder(SeenMagnitude const& seen)
        : scale(exponent_of(seen.magnitude)), half_scale(half_of(scale)) {}

    /// floor(log2(magnitude)) - 2 + 127, the logarithm rounded to a float: it is a whole number where the magnitude is within
    /// `near` units below that power of two, of 2^-24 of it each, which is half of a float's step there.
    [[nodiscard]] SHARDWISE_DEVICE static std::uint8_t exponent_of(float magnitude) {
        auto const raw = bits_of_float(magnitude) & 0x7FFFFFFFU;
        if (raw >= 0x7F800000U) return 255;
        auto const next = static_cast<int>(raw >> 23U) - 126;
        auto const size = static_cast<std::uint32_t>(next < 0 ? -next : next);
        // Floats below a power of two are twice as close together as above it.
        auto const binade = next > 0 ? size - 1 : size;
        // floor(log(2) 2^j) of the binade [2^j, 2^(j + 1)): 0.693, 1.386, 2.77, 5.5, 11.1, 22.2, 44.4.
        auto const near = binade >= 64   ? 44U
                          : binade >= 32 ? 22U
                          : binade >= 16 ? 11U
                          : binade >= 8  ? 5U
                          : binade >= 4  ? 2U
                          : binade >= 2  ? 1U
                                         : 0U;
        bool const is_next = 0x00800000U - (raw & 0x007FFFFFU) <= near;
        auto const exponent = next - 1 + (is_next ? 1 : 0) + 125;
        return static_cast<std::uint8_t>(exponent < 0 ? 0 : exponent);
    }
    /// Half of the power of two: codes are twice their values.
    [[nodiscard]] SHARDWISE_DEVICE static float half_of(std::uint8_t exponent) {
        auto const power = static_cast<std::uint32_t>(exponent);
        return float_of_bits(power < 2 ? 0x00200000U << power : (power - 1U) << 23U);
    }
    [[nodiscard]] SHARDWISE_DEVICE std::uint32_t code(float value) const {
        constexpr float doubled[8] = {0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 6.0F, 8.0F, 12.0F};
        auto const size = magnitude_of(value);
        std::uint32_t best = 0;
        auto least = float_of_bits(0x7F800000U);
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 8; ++i) {
            auto const distance = magnitude_of(product_of(half_scale, doubled[i]) - size);
            if (distance < least) {
                least = distance;
                best = static_cast<std::uint32_t>(i);
            }
        }
        return best != 0 && value < 0.0F ? best | 8U : best;
    }
};

// quant/encode_legacy.hpp.

/// Integers around `middle`.
template <int middle>
struct EncodeAround {
    using Seen = SeenFarthest;
    static constexpr int bits = middle == 8 ? 4 : 5;
    static constexpr int span = 32;
    std::uint16_t scale;
    float inverse;

    SHARDWISE_DEVICE explicit EncodeAround(SeenFarthest const& seen) {
        auto const exact = quotient_of(seen.farthest, static_cast<float>(-middle));
        scale = scale_half(exact, seen.has_nan());
        inverse = reciprocal_of(exact);
    }
    [[nodiscard]] SHARDWISE_DEVICE std::uint32_t code(float value) const {
        auto const moved = product_of(value, inverse) + (static_cast<float>(middle) + 0.5F);
        return static_cast<std::uint32_t>(truncated_within(moved, 0, 2 * middle - 1));
    }
};
/// Integers from the least value on.
template <int levels>
struct EncodeAbove {
    using Seen = SeenRange;
    static constexpr int bits = levels == 15 ? 4 : 5;
    static constexpr int span = 32;
    /// The scale and the least value, halves.
    std::uint32_t scale;
    float least;
    float inverse;

    SHARDWISE_DEVICE explicit EncodeAbove(SeenRange const& seen) {
        bool const is_none = (seen.place & SeenRange::first_bit) != 0;
        least = is_none ? quiet_nan() : seen.least;
        // Of equals the difference is 0, whatever the signs of zeros, or NaN.
        auto const range = is_none                      ? least
                           : seen.greatest > seen.least ? seen.greatest - seen.least
                                                        : seen.greatest - seen.greatest;
        auto const exact = quotient_of(range, static_cast<float>(levels));
        scale = static_cast<std::uint32_t>(scale_half(exact, seen.has_nan())) |
                static_cast<std::uint32_t>(scale_half(least, seen.has_nan())) << 16U;
        inverse = reciprocal_of(exact);
    }
    [[nodiscard]] SHARDWISE_DEVICE std::uint32_t code(float value) const {
        auto const above = product_of(value - least, inverse) + 0.5F;
        return static_cast<std::uint32_t>(truncated_within(above, 0, levels));
    }
};

template <>
struct SpanEncoder<WeightFormat::q4_0> : EncodeAround<8> {
    using EncodeAround::EncodeAround;
};
template <>
struct SpanEncoder<WeightFormat::q5_0> : EncodeAround<16> {
    using EncodeAround::EncodeAround;
};
template <>
struct SpanEncoder<WeightFormat::q4_1> : EncodeAbove<15> {
    using EncodeAbove::EncodeAbove;
};
template <>
struct SpanEncoder<WeightFormat::q5_1> : EncodeAbove<31> {
    using EncodeAbove::EncodeAbove;
};

template <>
struct SpanEncoder<WeightFormat::q8_0> {
    using Seen = SeenMagnitude;
    static constexpr int bits = 8;
    static constexpr int span = 32;
    std::uint16_t scale;
    float inverse;

    SHARDWISE_DEVICE explicit SpanEncoder(SeenMagnitude const& seen) {
        auto const exact = quotient_of(seen.magnitude, 127.0F);
        scale = scale_half(exact, seen.has_nan());
        inverse = seen.has_nan() ? 0.0F : reciprocal_of(exact);
    }
    [[nodiscard]] SHARDWISE_DEVICE std::uint32_t code(float value) const {
        return static_cast<std::uint32_t>(rounded_within<false>(product_of(value, inverse), -127, 127)) & 0xFFU;
    }
};

SHARDWISE_UNFUSED_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
