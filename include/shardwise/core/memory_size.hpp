// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Bytes of one unit: "" and "B", k, KB, KiB, ... PB, PiB in any case; 0 for anything else. Bits are an eighth.
[[nodiscard]] inline double unit_bytes(std::string_view unit) {
    if (unit.empty() || unit == "B") return 1.0;
    constexpr std::string_view letters = "kmgtp";
    auto const power = letters.find(to_lower(unit[0]));
    if (power == std::string_view::npos) return 0.0;
    auto const rest = unit.substr(1);
    bool const is_binary = equal_ignoring_case(rest, "iB") || rest == "i";
    bool const is_bits = rest == "b";
    if (!is_binary && !is_bits && !rest.empty() && rest != "B") return 0.0;
    double bytes = is_binary ? 1024.0 : 1000.0;
    for (auto i = power; i > 0; --i) bytes *= is_binary ? 1024.0 : 1000.0;
    return is_bits ? bytes / 8.0 : bytes;
}

}  // namespace detail

/// Reads a memory size: KiB to PiB (any case) are powers of 2, KB to PB powers of 10, and so are k, M, G, T, P alone; a
/// lower-case final `b` after one letter means bits, as accelerate reads it ("10Gb" is 1,250,000,000 bytes); a number
/// without a unit, or with B, is bytes. The number may have a fraction and an exponent, and blanks may surround it.
///
/// Errors  invalid_argument for another unit, no number, a negative, too large or (in bytes) broken one
/// Source  accelerate utils/modeling.py convert_file_size_to_int, whose units are GB, GiB and below
[[nodiscard]] inline Result<Bytes> parse_memory_size(std::string_view text) {
    auto const refuse = [text](std::string_view why) {
        return Error{ErrorCode::invalid_argument}
            .at(text)
            .because(why)
            .fix("write a size like 10GiB, 500MB, 2TB, 64G or 8Gb (bits)");
    };
    auto const trimmed = [](std::string_view part) {
        while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
        while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
        return part;
    };
    auto const word = trimmed(text);
    auto const number = word.substr(0, word.find_first_not_of("0123456789.eE+-"));
    auto const unit = trimmed(word.substr(number.size()));
    std::string const digits{number};
    char* end = nullptr;
    double const value = std::strtod(digits.c_str(), &end);
    if (digits.empty() || end != digits.c_str() + digits.size()) return refuse("is not a memory size");
    double const factor = detail::unit_bytes(unit);
    if (factor == 0.0) return refuse(unit == "b" ? "may mean bits or bytes" : "has no unit that is known");
    if (value < 0.0 || digits[0] == '-') return refuse("is negative");
    double const bytes = value * factor;
    if (!(bytes < 9.2e18)) return refuse("is too large");
    auto const whole = static_cast<std::int64_t>(bytes);
    if (factor == 1.0 && static_cast<double>(whole) != bytes) return refuse("is no whole number of bytes");
    return Bytes{whole};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
