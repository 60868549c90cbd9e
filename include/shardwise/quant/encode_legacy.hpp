// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/float_bits.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The extremes of some values.
struct Extremes {
    /// The value farthest from zero, with its sign; the first of equals.
    float farthest = 0.0F;
    float least = 0.0F;
    float greatest = 0.0F;
    bool has_nan = false;

    [[nodiscard]] constexpr float magnitude() const {
        if (has_nan) return std::numeric_limits<float>::quiet_NaN();
        return farthest < 0.0F ? -farthest : farthest;
    }
};

[[nodiscard]] constexpr Extremes extremes_of(std::span<float const> values) {
    Extremes found;
    if (values.empty()) return found;
    found.least = found.greatest = values[0];
    float magnitude = 0.0F;
    for (auto const value : values) {
        if (value != value) found.has_nan = true;
        auto const size = value < 0.0F ? -value : value;
        if (size > magnitude) {
            magnitude = size;
            found.farthest = value;
        }
        if (value < found.least) found.least = value;
        if (value > found.greatest) found.greatest = value;
    }
    return found;
}

/// a * b, rounded to float before anything is added: the product in double is exact, so no compiler fuses it.
[[nodiscard]] constexpr float rounded_product(float a, float b) {
    return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}

/// The integer part, within bounds; 0 for what is no number.
[[nodiscard]] constexpr int truncate_within(float value, int least, int greatest) {
    if (value != value) return least > 0 ? least : 0;
    if (value <= static_cast<float>(least)) return least;
    if (value >= static_cast<float>(greatest)) return greatest;
    return static_cast<int>(value);
}

/// The nearest integer, halves away from zero, within bounds.
[[nodiscard]] constexpr int round_away_within(float value, int bound) {
    auto const whole = truncate_within(value, -bound, bound);
    auto const rest = static_cast<double>(value) - static_cast<double>(whole);
    if (rest >= 0.5 && whole < bound) return whole + 1;
    if (rest <= -0.5 && whole > -bound) return whole - 1;
    return whole;
}

/// The nearest integer, halves to even, within bounds.
[[nodiscard]] constexpr int round_even_within(float value, int least, int greatest) {
    auto const whole = truncate_within(value, least, greatest);
    auto const rest = static_cast<double>(value) - static_cast<double>(whole);
    bool const is_odd = whole % 2 != 0;
    if ((rest > 0.5 || (rest == 0.5 && is_odd)) && whole < greatest) return whole + 1;
    if ((rest < -0.5 || (rest == -0.5 && is_odd)) && whole > least) return whole - 1;
    return whole;
}

[[nodiscard]] constexpr float reciprocal(float value) {
    return value == 0.0F ? 0.0F : 1.0F / value;
}

constexpr void store_u16(std::span<std::uint8_t> bytes, std::size_t at, std::uint16_t value) {
    bytes[at] = static_cast<std::uint8_t>(value & 0xFFU);
    bytes[at + 1] = static_cast<std::uint8_t>(value >> 8U);
}
/// Stores a block's scale as a half; a block that has a NaN gets one, so that it does not decode to numbers. Of infinities alone the
/// range is one, too, whose sign processors differ in.
constexpr void store_scale(std::span<std::uint8_t> bytes, std::size_t at, float scale, bool has_nan) {
    store_u16(bytes, at, has_nan || scale != scale ? std::uint16_t{0x7E00} : to_f16(scale));
}

/// Lays 32 integers below 16 out as legacy blocks do: i in the low and i + 16 in the high half of byte i.
constexpr void store_nibbles(std::span<std::uint8_t> bytes, std::size_t at, std::span<int const, 32> integers) {
    for (std::size_t i = 0; i < 16; ++i) {
        bytes[at + i] = static_cast<std::uint8_t>((integers[i] & 15) | ((integers[i + 16] & 15) << 4));
    }
}
/// The fifth bits of 32 integers below 32, four bytes.
constexpr void store_fifth_bits(std::span<std::uint8_t> bytes, std::size_t at, std::span<int const, 32> integers) {
    for (std::size_t i = 0; i < 4; ++i) {
        unsigned byte = 0;
        for (std::size_t k = 0; k < 8; ++k) byte |= (static_cast<unsigned>(integers[8 * i + k]) >> 4U & 1U) << k;
        bytes[at + i] = static_cast<std::uint8_t>(byte);
    }
}

/// Integers around `middle`: the value farthest from zero becomes 0. Returns the scale.
constexpr float encode_around(std::span<float const, 32> values, Extremes const& found, int middle,
                              std::span<int, 32> integers) {
    auto const scale = found.farthest / static_cast<float>(-middle);
    auto const inverse = reciprocal(scale);
    auto const half_up = static_cast<float>(middle) + 0.5F;
    for (std::size_t i = 0; i < 32; ++i) {
        integers[i] = truncate_within(rounded_product(values[i], inverse) + half_up, 0, 2 * middle - 1);
    }
    return scale;
}

/// Integers from the least value on, which becomes 0. Returns the scale.
constexpr float encode_above(std::span<float const, 32> values, Extremes const& found, int levels,
                             std::span<int, 32> integers) {
    auto const scale = (found.greatest - found.least) / static_cast<float>(levels);
    auto const inverse = reciprocal(scale);
    for (std::size_t i = 0; i < 32; ++i) {
        integers[i] = truncate_within(rounded_product(values[i] - found.least, inverse) + 0.5F, 0, levels);
    }
    return scale;
}

}  // namespace detail

// The blocks of decode_legacy.hpp from their elements, bit for bit as ggml makes them. A block with a NaN decodes to NaNs, one
// with an infinity to what is not finite; ggml leaves both undefined.
// Source: ggml-quants.c (quantize_row_*_ref).

constexpr void encode_q4_0(std::span<float const, 32> values, std::span<std::uint8_t, 18> block) {
    int integers[32]{};
    auto const found = detail::extremes_of(values);
    detail::store_scale(block, 0, detail::encode_around(values, found, 8, integers), found.has_nan);
    detail::store_nibbles(block, 2, integers);
}

constexpr void encode_q4_1(std::span<float const, 32> values, std::span<std::uint8_t, 20> block) {
    int integers[32]{};
    auto const found = detail::extremes_of(values);
    detail::store_scale(block, 0, detail::encode_above(values, found, 15, integers), found.has_nan);
    detail::store_scale(block, 2, found.least, found.has_nan);
    detail::store_nibbles(block, 4, integers);
}

constexpr void encode_q5_0(std::span<float const, 32> values, std::span<std::uint8_t, 22> block) {
    int integers[32]{};
    auto const found = detail::extremes_of(values);
    detail::store_scale(block, 0, detail::encode_around(values, found, 16, integers), found.has_nan);
    detail::store_fifth_bits(block, 2, integers);
    detail::store_nibbles(block, 6, integers);
}

constexpr void encode_q5_1(std::span<float const, 32> values, std::span<std::uint8_t, 24> block) {
    int integers[32]{};
    auto const found = detail::extremes_of(values);
    detail::store_scale(block, 0, detail::encode_above(values, found, 31, integers), found.has_nan);
    detail::store_scale(block, 2, found.least, found.has_nan);
    detail::store_fifth_bits(block, 4, integers);
    detail::store_nibbles(block, 8, integers);
}

constexpr void encode_q8_0(std::span<float const, 32> values, std::span<std::uint8_t, 34> block) {
    auto const found = detail::extremes_of(values);
    auto const scale = found.magnitude() / 127.0F;
    auto const inverse = found.has_nan ? 0.0F : detail::reciprocal(scale);
    detail::store_scale(block, 0, scale, found.has_nan);
    for (std::size_t i = 0; i < 32; ++i) {
        auto const q = detail::round_away_within(detail::rounded_product(values[i], inverse), 127);
        block[2 + i] = static_cast<std::uint8_t>(q);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
