// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Reads a memory size as accelerate does: GiB, MiB, KiB (any case) are powers of 2, GB, MB, KB powers of 10; a lower-case
/// final `b` after G, M or K means bits ("10Gb" is 1,250,000,000 bytes). The number may have a fraction and an exponent.
///
/// Errors  invalid_argument for no unit, another unit ("10G", "1TB"), no number, a negative or too large one
/// Source  accelerate utils/modeling.py convert_file_size_to_int
[[nodiscard]] inline Result<Bytes> parse_memory_size(std::string_view text) {
    struct Unit {
        std::string_view suffix;
        double factor;
    };
    constexpr std::array<Unit, 6> units{{{"gib", 1073741824.0}, {"mib", 1048576.0}, {"kib", 1024.0},
                                         {"gb", 1e9}, {"mb", 1e6}, {"kb", 1e3}}};
    auto const refuse = [text](std::string_view why) {
        return Error{ErrorCode::invalid_argument}.at(text).because(why).fix("write a size like 10GiB, 500MB or 8Gb (bits)");
    };
    for (auto const& unit : units) {
        if (text.size() < unit.suffix.size()) continue;
        auto const cut = text.size() - unit.suffix.size();
        if (!equal_ignoring_case(text.substr(cut), unit.suffix)) continue;
        auto const number = text.substr(0, cut);
        for (char const letter : number) {
            bool const is_numeric = (letter >= '0' && letter <= '9') || letter == '.' || letter == 'e' || letter == 'E' ||
                                    letter == '+' || letter == '-';
            if (!is_numeric) return refuse("is not a memory size");
        }
        std::string const digits{number};
        char* end = nullptr;
        double const value = std::strtod(digits.c_str(), &end);
        if (digits.empty() || end != digits.c_str() + digits.size()) return refuse("is not a memory size");
        double const bytes = value * unit.factor;
        if (bytes < 0.0 || digits[0] == '-') return refuse("is negative");
        if (!(bytes < 9.2e18)) return refuse("is too large");
        auto const whole = static_cast<std::int64_t>(bytes);
        bool const is_bits = unit.suffix.size() == 2 && text.back() == 'b';
        return Bytes{is_bits ? whole / 8 : whole};
    }
    return refuse("has no unit that is known");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
