#pragma once

#include <charconv>
#include <cstdint>
#include <system_error>

namespace shardwise::inline v0::detail {

/// A number as JSON spells it: an integer of either width, a real, or why it is none.
struct JsonNumber {
    enum class Kind : std::uint8_t { integer, unsigned_integer, real, malformed, too_large };
    Kind kind = Kind::malformed;
    std::int64_t integer = 0;
    std::uint64_t unsigned_integer = 0;
    double real = 0.0;
    /// One past the last character that belongs to it, or the character at fault.
    char const* end = nullptr;
};

[[nodiscard]] constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// Whether a well-formed decimal that no double holds is too small (and so zero) rather than too large.
[[nodiscard]] inline bool is_vanishing(char const* first, char const* last) {
    std::int64_t magnitude = 0;  // the power of ten of the first non-zero digit
    bool has_digit = false;
    bool is_fraction = false;
    char const* at = first;
    for (; at != last && *at != 'e' && *at != 'E'; ++at) {
        if (*at == '.') {
            is_fraction = true;
        } else if (is_digit(*at)) {
            has_digit = has_digit || *at != '0';
            if (is_fraction && !has_digit) --magnitude;
            if (!is_fraction && has_digit) ++magnitude;
        }
    }
    if (!has_digit) return true;
    std::int64_t exponent = 0;
    bool const is_negative = at != last && at + 1 != last && at[1] == '-';
    for (; at != last; ++at) {
        if (is_digit(*at) && exponent < INT64_MAX / 100) exponent = exponent * 10 + (*at - '0');
    }
    return magnitude + (is_negative ? -exponent : exponent) < 0;
}

/// Reads the number at `first`, which starts with '-' or a digit. Locales play no part.
///
/// Source  RFC 8259, section 6
[[nodiscard]] inline JsonNumber scan_number(char const* first, char const* last) {
    JsonNumber number;
    char const* at = first;
    bool const is_negative = at != last && *at == '-';
    if (is_negative) ++at;
    number.end = at;
    if (at == last || !is_digit(*at)) return number;
    bool const leads_with_zero = *at == '0';
    std::uint64_t value = 0;
    bool is_wide = false;
    char const* const digits = at;
    for (; at != last && is_digit(*at); ++at) {
        auto const digit = static_cast<std::uint64_t>(*at - '0');
        is_wide = is_wide || value > (UINT64_MAX - digit) / 10;
        value = value * 10 + digit;
    }
    number.end = at;
    if (leads_with_zero && at - digits > 1) return number;
    bool is_real = false;
    if (at != last && *at == '.') {
        is_real = true;
        char const* const fraction = ++at;
        while (at != last && is_digit(*at)) ++at;
        number.end = at;
        if (at == fraction) return number;
    }
    if (at != last && (*at == 'e' || *at == 'E')) {
        is_real = true;
        ++at;
        if (at != last && (*at == '+' || *at == '-')) ++at;
        char const* const exponent = at;
        while (at != last && is_digit(*at)) ++at;
        number.end = at;
        if (at == exponent) return number;
    }
    if (!is_real && !is_wide) {
        constexpr auto most = static_cast<std::uint64_t>(INT64_MAX);
        if (!is_negative && value > most) {
            number.kind = JsonNumber::Kind::unsigned_integer;
            number.unsigned_integer = value;
            return number;
        }
        if (!is_negative || value <= most + 1) {
            number.kind = JsonNumber::Kind::integer;
            number.integer = is_negative ? static_cast<std::int64_t>(0 - value) : static_cast<std::int64_t>(value);
            return number;
        }
    }
    auto const parsed = std::from_chars(first, at, number.real);
    if (parsed.ec == std::errc::result_out_of_range) {
        number.real = is_negative ? -0.0 : 0.0;
        number.kind = is_vanishing(first, at) ? JsonNumber::Kind::real : JsonNumber::Kind::too_large;
    } else if (parsed.ec == std::errc{}) {
        number.kind = JsonNumber::Kind::real;
    }
    return number;
}

}  // namespace shardwise::inline v0::detail
