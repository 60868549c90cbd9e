// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a number's text is: an integer where 64 bits hold it, else a real.
struct JsonNumber {
    enum class Kind : std::uint8_t { integer, unsigned_integer, real, too_large };
    Kind kind = Kind::real;
    std::int64_t integer = 0;
    std::uint64_t unsigned_integer = 0;
    double real = 0.0;
};

/// How far a text is a number by JSON's grammar.
struct NumberShape {
    /// Behind the number, or the byte that it cannot have.
    char const* end;
    bool is_whole = false;
    /// Has a fraction or an exponent.
    bool is_real = false;
};

[[nodiscard]] constexpr bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

[[nodiscard]] constexpr NumberShape scan_number(char const* at, char const* last) {
    // At least one digit.
    auto const digits = [&] {
        auto const* const first = at;
        while (at != last && is_digit(*at)) ++at;
        return at != first;
    };
    NumberShape shape{at};
    if (at != last && *at == '-') ++at;
    bool const is_zero = at != last && *at == '0';
    bool is_whole = is_zero || digits();
    if (is_zero) ++at;
    if (is_whole && at != last && *at == '.') {
        ++at;
        shape.is_real = true;
        is_whole = digits();
    }
    if (is_whole && at != last && (*at == 'e' || *at == 'E')) {
        ++at;
        shape.is_real = true;
        if (at != last && (*at == '+' || *at == '-')) ++at;
        is_whole = digits();
    }
    shape.end = at;
    shape.is_whole = is_whole;
    return shape;
}

/// True where the digits of a real that no double holds are of a number below 1: it is too small, and not too large.
[[nodiscard]] inline bool is_below_one(std::string_view digits) {
    if (digits.starts_with('-')) digits.remove_prefix(1);
    auto const e = digits.find_first_of("eE");
    auto const mantissa = digits.substr(0, e);
    auto const point = mantissa.find('.');
    auto const whole = static_cast<std::int64_t>(point == mantissa.npos ? mantissa.size() : point);
    std::int64_t magnitude = whole - 1;
    if (mantissa.starts_with('0')) {
        auto const first = mantissa.find_first_not_of("0.");
        magnitude = first == mantissa.npos ? 0 : -static_cast<std::int64_t>(first) + 1;
    }
    if (e == digits.npos) return magnitude < 0;
    auto exponent = digits.substr(e + 1);
    bool const is_negative = exponent.starts_with('-');
    if (is_negative || exponent.starts_with('+')) exponent.remove_prefix(1);
    std::int64_t power = 0;
    // A large exponent, perhaps of more than 63 bits, outweighs any mantissa.
    auto const read = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
    if (read.ec != std::errc{} || power > std::int64_t{1} << 40U) return is_negative;
    return is_negative ? magnitude < power : magnitude + power < 0;
}

[[nodiscard]] inline JsonNumber parse_number(std::string_view digits, bool is_real) {
    auto const* const first = digits.data();
    auto const* const last = first + digits.size();
    JsonNumber number;
    if (!is_real) {
        if (std::from_chars(first, last, number.integer).ec == std::errc{}) {
            number.kind = JsonNumber::Kind::integer;
            return number;
        }
        if (*first != '-' && std::from_chars(first, last, number.unsigned_integer).ec == std::errc{}) {
            number.kind = JsonNumber::Kind::unsigned_integer;
            return number;
        }
    }
    if (std::from_chars(first, last, number.real).ec == std::errc{}) return number;
    number.real = *first == '-' ? -0.0 : 0.0;
    if (!is_below_one(digits)) number.kind = JsonNumber::Kind::too_large;
    return number;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
