// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/text.hpp>
#include <shardwise/tokenizer/unicode.hpp>
#include <shardwise/tokenizer/utf8.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Python's str over well-formed UTF-8.

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// str.isspace of one code point.
[[nodiscard]] constexpr bool is_python_space(char32_t code) {
    return is_white_space(code) || (code >= 0x1C && code <= 0x1F);
}

[[nodiscard]] constexpr std::size_t count_code_points(std::string_view text) {
    std::size_t count = 0;
    for (char const byte : text) count += (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U ? 1U : 0U;
    return count;
}

/// The bytes of the code point that begins at `at`, of which well-formed text has at least one.
[[nodiscard]] constexpr std::size_t length_at(std::string_view text, std::size_t at) {
    auto const length = shardwise::utf8_length(text.substr(at));
    return length == 0 ? 1 : length;
}

/// The first byte of the code point that ends before `end`.
[[nodiscard]] constexpr std::size_t before_end(std::string_view text, std::size_t end) {
    auto at = end - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
    return at;
}

/// The byte where the code point of this number begins; the text's end where there are fewer.
[[nodiscard]] constexpr std::size_t byte_of(std::string_view text, std::size_t code_point) {
    std::size_t at = 0;
    while (at < text.size() && code_point > 0) at += length_at(text, at), --code_point;
    return at;
}

enum class StripSide : std::uint8_t { both, left, right };

/// str.strip, lstrip, rstrip: white space, or the code points of `set` where one is given.
[[nodiscard]] inline std::string_view strip_text(std::string_view text, StripSide side,
                                                 std::optional<std::string_view> set = std::nullopt) {
    auto codes = set ? to_code_points(*set) : std::u32string{};
    std::sort(codes.begin(), codes.end());
    auto const goes = [&](std::size_t at, std::size_t end) {
        auto const code = utf8_code_point(text.substr(at), end - at);
        return set ? std::binary_search(codes.begin(), codes.end(), code) : is_python_space(code);
    };
    if (side != StripSide::right) {
        while (!text.empty()) {
            auto const length = length_at(text, 0);
            if (!goes(0, length)) break;
            text.remove_prefix(length);
        }
    }
    if (side != StripSide::left) {
        while (!text.empty()) {
            auto const at = before_end(text, text.size());
            if (!goes(at, text.size())) break;
            text = text.substr(0, at);
        }
    }
    return text;
}

/// Whether a code point is a letter of lower case, or of upper case or title case.
[[nodiscard]] constexpr bool is_cased(char32_t code, bool is_lower) {
    using enum UnicodeCategory;
    bool const is_circled = code >= 0x24B6 && code <= 0x24E9;
    bool const is_numeral = code >= 0x2160 && code <= 0x217F;
    if (is_circled) return is_lower == (code >= 0x24D0);
    if (is_numeral) return is_lower == (code >= 0x2170);
    // Modifier letters that look like small ones count as lower case.
    bool const is_small = code == 0xAA || code == 0xBA || (code >= 0x2B0 && code <= 0x2B8);
    return is_lower ? is_small || category_of(code) == Ll : is_in(code, categories({Lu, Lt}));
}

/// str.splitlines, without the ends of the lines.
[[nodiscard]] inline std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends = false) {
    std::vector<std::string_view> lines;
    std::size_t first = 0;
    for (std::size_t at = 0; at < text.size();) {
        auto const length = length_at(text, at);
        auto const code = utf8_code_point(text.substr(at), length);
        bool const is_end = (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
                            code == 0x2028 || code == 0x2029;
        auto next = at + length;
        if (is_end) {
            if (code == '\r' && next < text.size() && text[next] == '\n') ++next;
            lines.push_back(text.substr(first, (keeps_ends ? next : at) - first));
            first = next;
        }
        at = next;
    }
    if (first < text.size()) lines.push_back(text.substr(first));
    return lines;
}

/// str.lower; nothing where a letter has a form that depends on its place.
[[nodiscard]] inline std::optional<std::string> lower_text(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        auto const length = length_at(text, at);
        auto const code = utf8_code_point(text.substr(at), length);
        if (code == 0x3A3) return std::nullopt;  // sigma: another one at the end of a word
        append_utf8(out, code == 0x130 ? 'i' : to_lower(code));
        if (code == 0x130) append_utf8(out, 0x307);
        at += length;
    }
    return out;
}

/// str.upper; nothing for letters beyond ASCII that have an upper case.
[[nodiscard]] inline std::optional<std::string> upper_text(std::string_view text) {
    using enum UnicodeCategory;
    constexpr auto cased = categories({Ll, Lt, Nl, So});
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        auto const length = length_at(text, at);
        auto const code = utf8_code_point(text.substr(at), length);
        // Of the symbols only circled letters have one; emoji do not.
        bool const is_symbol = category_of(code) == So && (code < 0x24B6 || code > 0x24E9);
        if (code >= 0x80 && ((is_in(code, cased) && !is_symbol) || code == 0x345)) return std::nullopt;
        append_utf8(out, code >= 'a' && code <= 'z' ? code - 32 : code);
        at += length;
    }
    return out;
}

/// repr of a str.
[[nodiscard]] inline std::string repr_text(std::string_view text) {
    using enum UnicodeCategory;
    constexpr auto unprintable = categories({Cc, Cf, Cs, Co, Cn, Zl, Zp, Zs});
    constexpr std::string_view digits = "0123456789abcdef";
    bool const has_single = text.find('\'') != std::string_view::npos;
    char const quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
    std::string out(1, quote);
    for (std::size_t at = 0; at < text.size();) {
        auto const length = length_at(text, at);
        auto const code = utf8_code_point(text.substr(at), length);
        if (code == static_cast<unsigned char>(quote) || code == '\\') {
            (out += '\\') += text[at];
        } else if (code == '\n') {
            out += "\\n";
        } else if (code == '\r') {
            out += "\\r";
        } else if (code == '\t') {
            out += "\\t";
        } else if (code == ' ' || (code > 0x20 && code < 0x7F) || (code >= 0xA0 && !is_in(code, unprintable))) {
            out.append(text, at, length);
        } else {
            int const width = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
            (out += '\\') += code < 0x100 ? 'x' : code < 0x10000 ? 'u' : 'U';
            for (int shift = (width - 1) * 4; shift >= 0; shift -= 4)
                out += digits[code >> static_cast<unsigned>(shift) & 15U];
        }
        at += length;
    }
    return out += quote;
}

/// repr of a float: the shortest digits that read back as the same number, as Python writes them.
[[nodiscard]] inline std::string repr_real(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
    char written[40];
    auto const end = std::to_chars(written, written + sizeof written, number, std::chars_format::scientific).ptr;
    std::string_view const text{written, static_cast<std::size_t>(end - written)};
    auto const mark = text.find('e');
    std::string out = text.starts_with('-') ? "-" : "";
    std::string digits;
    for (char const letter : text.substr(out.size(), mark - out.size()))
        if (letter != '.') digits += letter;
    int exponent = 0;
    auto const first = text.data() + mark + (text[mark + 1] == '+' ? 2 : 1);
    static_cast<void>(std::from_chars(first, end, exponent));
    if (exponent < -4 || exponent >= 16) {
        out += digits[0];
        if (digits.size() > 1) (out += '.') += digits.substr(1);
        out += exponent < 0 ? "e-" : "e+";
        auto const power = std::to_string(exponent < 0 ? -exponent : exponent);
        return out += power.size() < 2 ? "0" + power : power;
    }
    if (exponent < 0) return out += "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
    auto const whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() <= whole) return out += digits + std::string(whole - digits.size(), '0') + ".0";
    return out += digits.substr(0, whole) + "." + digits.substr(whole);
}

/// int(text) in base 10; nothing where it is none or leaves 63 bits.
[[nodiscard]] inline std::optional<std::int64_t> read_integer(std::string_view text) {
    text = strip_text(text, StripSide::both);
    bool const is_signed = text.starts_with('-') || text.starts_with('+');
    std::string digits = text.starts_with('-') ? "-" : "";
    bool may_join = false;
    for (char const letter : text.substr(is_signed ? 1 : 0)) {
        if (letter == '_' && may_join) {
            may_join = false;
            continue;
        }
        if (letter < '0' || letter > '9') return std::nullopt;
        digits += letter;
        may_join = true;
    }
    std::int64_t number = 0;
    auto const last = digits.data() + digits.size();
    auto const read = std::from_chars(digits.data(), last, number);
    if (!may_join || read.ec != std::errc{} || read.ptr != last) return std::nullopt;
    return number;
}

/// float(text); nothing where it is none.
[[nodiscard]] inline std::optional<double> read_real(std::string_view text) {
    text = strip_text(text, StripSide::both);
    bool const is_negative = text.starts_with('-');
    if (is_negative || text.starts_with('+')) text.remove_prefix(1);
    if (text.empty() || text[0] == '-' || text[0] == '+') return std::nullopt;
    auto const is_digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
    bool const is_word =
        equal_ignoring_case(text, "inf") || equal_ignoring_case(text, "infinity") || equal_ignoring_case(text, "nan");
    std::string digits;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '_' && at > 0 && is_digit(at - 1) && is_digit(at + 1)) continue;
        if (!is_word && !is_digit(at) && std::string_view(".eE+-").find(text[at]) == std::string_view::npos)
            return std::nullopt;
        digits += text[at];
    }
    char* end = nullptr;
    double const number = std::strtod(digits.c_str(), &end);
    if (end != digits.c_str() + digits.size()) return std::nullopt;
    return is_negative ? -number : number;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
