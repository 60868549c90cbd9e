// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// 10 to the power of `exponent`, 0 to 308, correctly rounded.
[[nodiscard]] inline double power_of_ten(std::size_t exponent) {
    static auto const table = [] {
        std::array<double, 309> powers{};
        for (std::size_t i = 0; i < powers.size(); ++i) {
            powers[i] = std::strtod(("1e" + std::to_string(i)).c_str(), nullptr);
        }
        return powers;
    }();
    return table[exponent];
}

/// `significand` times 10 to the power of `exponent`, with the roundings of tokenizers.
[[nodiscard]] inline double scaled_by_ten(std::uint64_t significand, std::int64_t exponent) {
    constexpr std::int64_t largest = 308;
    auto value = static_cast<double>(significand);
    if (value == 0.0) return value;
    if (exponent > largest) return std::numeric_limits<double>::infinity();
    for (; exponent < -largest && value != 0.0; exponent += largest) value /= power_of_ten(largest);
    if (value == 0.0) return value;
    return exponent < 0 ? value / power_of_ten(static_cast<std::size_t>(-exponent))
                        : value * power_of_ten(static_cast<std::size_t>(exponent));
}

/// The number that tokenizers reads where a JSON number is no integer of 64 bits: the digits as an integer of 64 bits, as
/// far as they fit, times or divided by a power of ten. It may be off by units in the last place, which decides between
/// cuts of equal score.
///
/// `text` is a number of JSON's grammar; whatever stands for its decimal point counts as one.
/// Source  serde_json 1.0, de.rs, without its feature float_roundtrip, which tokenizers does not ask for
[[nodiscard]] inline double tokenizer_number(std::string_view text) {
    constexpr std::int64_t max_exponent = std::numeric_limits<std::int32_t>::max();
    auto const is_digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    bool const is_negative = text.starts_with('-');
    std::size_t at = is_negative ? 1 : 0;
    std::uint64_t significand = 0;
    std::int64_t exponent = 0;
    auto const append = [&] {
        auto const digit = static_cast<std::uint64_t>(text[at] - '0');
        if (significand > (UINT64_MAX - digit) / 10) return false;
        significand = significand * 10 + digit;
        ++at;
        return true;
    };
    while (is_digit(at) && append()) {
    }
    for (; is_digit(at); ++at) ++exponent;
    if (at < text.size() && text[at] != 'e' && text[at] != 'E') {
        ++at;
        while (is_digit(at) && append()) --exponent;
        while (is_digit(at)) ++at;
    }
    if (at < text.size()) {
        ++at;
        bool const is_small = at < text.size() && text[at] == '-';
        if (at < text.size() && !is_digit(at)) ++at;
        std::int64_t given = 0;
        for (; is_digit(at) && given <= max_exponent; ++at) given = given * 10 + (text[at] - '0');
        exponent += is_small ? -given : given;
    }
    auto const value = scaled_by_ten(significand, exponent);
    return is_negative ? -value : value;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
