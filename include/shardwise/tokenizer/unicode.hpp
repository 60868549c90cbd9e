// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/unicode_class_table.hpp>
#include <shardwise/tokenizer/unicode_set_table.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The general category of a code point, in the order of the Unicode Standard's table 4-4.
enum class UnicodeCategory : std::uint8_t {
    Lu,
    Ll,
    Lt,
    Lm,
    Lo,
    Mn,
    Mc,
    Me,
    Nd,
    Nl,
    No,
    Pc,
    Pd,
    Ps,
    Pe,
    Pi,
    Pf,
    Po,
    Sm,
    Sc,
    Sk,
    So,
    Zs,
    Zl,
    Zp,
    Cc,
    Cf,
    Cs,
    Co,
    Cn
};

/// A set of general categories, one bit for each.
using UnicodeCategories = std::uint32_t;

[[nodiscard]] constexpr UnicodeCategories categories(std::initializer_list<UnicodeCategory> list) {
    UnicodeCategories set = 0;
    for (auto const category : list) set |= UnicodeCategories{1} << static_cast<unsigned>(category);
    return set;
}

namespace unicode {
using enum UnicodeCategory;
inline constexpr UnicodeCategories letters = categories({Lu, Ll, Lt, Lm, Lo});
inline constexpr UnicodeCategories marks = categories({Mn, Mc, Me});
inline constexpr UnicodeCategories numbers = categories({Nd, Nl, No});
inline constexpr UnicodeCategories punctuation = categories({Pc, Pd, Ps, Pe, Pi, Pf, Po});
inline constexpr UnicodeCategories symbols = categories({Sm, Sc, Sk, So});
inline constexpr UnicodeCategories separators = categories({Zs, Zl, Zp});
inline constexpr UnicodeCategories others = categories({Cc, Cf, Cs, Co, Cn});
}  // namespace unicode

namespace detail {

/// The number in base 64 of `width` characters at `at`.
[[nodiscard]] constexpr std::uint32_t table_number(std::string_view table, std::size_t at, std::size_t width) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < width; ++i) value = value << 6U | static_cast<std::uint32_t>(table[at + i] - '#');
    return value;
}

/// The last record of a sorted table whose key of `key_width` characters is at most `key`; npos where there is none.
[[nodiscard]] constexpr std::size_t last_record(std::string_view table, std::size_t record, std::size_t key_width,
                                                std::uint32_t key) {
    std::size_t low = 0;
    std::size_t high = table.size() / record;
    while (low < high) {
        auto const middle = (low + high) / 2;
        if (table_number(table, middle * record, key_width) <= key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? std::string_view::npos : (low - 1) * record;
}

/// Whether a code point is in the set that begins at the first border, ends before the second, and so on.
[[nodiscard]] constexpr bool is_between(char32_t code, std::string_view borders) {
    auto const at = last_record(borders, 4, 4, code);
    return at != std::string_view::npos && at / 4 % 2 == 0;
}

}  // namespace detail

/// The categories of a name such as `L` or `Lu`; 0 for a name that is none.
[[nodiscard]] constexpr UnicodeCategories categories_of(std::string_view name) {
    constexpr std::string_view names = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn";
    UnicodeCategories found = 0;
    for (std::size_t i = 0; i < names.size() / 2; ++i) {
        if (names.substr(i * 2, name.size()) == name) found |= UnicodeCategories{1} << i;
    }
    return name.size() == 1 || name.size() == 2 ? found : 0;
}

[[nodiscard]] constexpr UnicodeCategory category_of(char32_t code) {
    if (code > 0x10FFFF) return UnicodeCategory::Cn;
    auto const at = detail::last_record(detail::category_runs, 5, 4, code);
    return static_cast<UnicodeCategory>(detail::table_number(detail::category_runs, at + 4, 1));
}

[[nodiscard]] constexpr bool is_in(char32_t code, UnicodeCategories set) {
    return (set >> static_cast<unsigned>(category_of(code)) & 1U) != 0;
}

/// The property White_Space.
[[nodiscard]] constexpr bool is_white_space(char32_t code) {
    if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0D);
    return code == 0x85 || (code >= 0xA0 && is_in(code, unicode::separators));
}

/// A word character of tokenizers outside of its patterns, that of UTS 18: the property Alphabetic or a mark, a decimal
/// digit, a connector or a joiner.
[[nodiscard]] constexpr bool is_word_character(char32_t code) {
    constexpr auto set =
        unicode::letters | unicode::marks | categories({UnicodeCategory::Nd, UnicodeCategory::Nl, UnicodeCategory::Pc});
    if (code == 0x200C || code == 0x200D) return true;
    // Symbols that are alphabetic: circled and squared letters.
    if ((code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
        (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189)) {
        return true;
    }
    return is_in(code, set);
}

/// A word character of a pattern (Oniguruma): no joiner, but the numbers of Latin-1 that are no digits.
[[nodiscard]] constexpr bool is_pattern_word_character(char32_t code) {
    if (code == 0x200C || code == 0x200D) return false;
    return is_word_character(code) || (code < 0x100 && is_in(code, categories({UnicodeCategory::No})));
}

/// A number of any kind, as Rust's char::is_numeric.
[[nodiscard]] constexpr bool is_number(char32_t code) {
    return detail::is_between(code, detail::numeric_borders);
}
/// Punctuation of tokenizers, also of BERT: every ASCII symbol too.
[[nodiscard]] constexpr bool is_punctuation(char32_t code) {
    return detail::is_between(code, detail::punctuation_borders);
}
/// What tokenizers' StripAccents removes: marks.
[[nodiscard]] constexpr bool is_accent(char32_t code) {
    return detail::is_between(code, detail::accent_borders);
}
/// What BERT removes as an accent: marks that take no space.
[[nodiscard]] constexpr bool is_bert_accent(char32_t code) {
    return detail::is_between(code, detail::bert_accent_borders);
}
/// What BERT removes as a control character; NUL and U+FFFD are among them, tabs and line ends are not.
[[nodiscard]] constexpr bool is_bert_control(char32_t code) {
    return detail::is_between(code, detail::bert_control_borders);
}

/// The simple lower case; only U+0130 has none of one code point, and stays.
[[nodiscard]] constexpr char32_t to_lower(char32_t code) {
    if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
    auto const at = detail::last_record(detail::lowercase_pairs, 6, 3, code);
    if (at == std::string_view::npos || detail::table_number(detail::lowercase_pairs, at, 3) != code) return code;
    return detail::table_number(detail::lowercase_pairs, at + 3, 3);
}

/// The canonical combining class.
[[nodiscard]] constexpr std::uint32_t combining_class(char32_t code) {
    if (code < 0x300 || code >= 0x40000) return 0;
    auto const at = detail::last_record(detail::combining_runs, 5, 3, code);
    return at == std::string_view::npos ? 0 : detail::table_number(detail::combining_runs, at + 3, 2);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
