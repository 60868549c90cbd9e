// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/stable_sort.hpp>
#include <shardwise/tokenizer/unicode.hpp>
#include <shardwise/tokenizer/unicode_canonical_table.hpp>
#include <shardwise/tokenizer/unicode_compatible_table.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The normalisation forms of Unicode.
enum class UnicodeForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

namespace detail {

// Source  The Unicode Standard 3.12, conjoining jamo behaviour
inline constexpr char32_t hangul_first = 0xAC00;
inline constexpr char32_t hangul_count = 11172;
inline constexpr char32_t leading_first = 0x1100;
inline constexpr char32_t leading_count = 19;
inline constexpr char32_t vowel_first = 0x1161;
inline constexpr char32_t vowel_count = 21;
inline constexpr char32_t trailing_first = 0x11A7;  // one before the first: no trailing consonant
inline constexpr char32_t trailing_count = 28;

/// Appends the decomposition of `code` that one pair of tables holds; false where it has none.
inline bool append_decomposition(std::u32string& out, char32_t code, std::string_view runs, std::string_view starts,
                                 std::string_view texts) {
    if (code >= 0x40000) return false;
    auto const run = last_record(runs, 6, 3, code);
    if (run == std::string_view::npos) return false;
    auto const first_index = table_number(runs, run + 3, 3);
    auto const index = first_index + (code - table_number(runs, run, 3));
    auto const end_index =
        run + 6 < runs.size() ? table_number(runs, run + 9, 3) : static_cast<std::uint32_t>(starts.size() / 3 - 1);
    if (index >= end_index) return false;
    auto const end = table_number(starts, std::size_t{index} * 3 + 3, 3);
    for (auto at = table_number(starts, std::size_t{index} * 3, 3); at < end; ++at) {
        out += static_cast<char32_t>(table_number(texts, std::size_t{at} * 3, 3));
    }
    return true;
}

inline void append_decomposed(std::u32string& out, char32_t code, bool is_compatible) {
    if (code < 0xA0) {
        out += code;
    } else if (code - hangul_first < hangul_count) {
        auto const index = code - hangul_first;
        out += leading_first + index / (vowel_count * trailing_count);
        out += vowel_first + index % (vowel_count * trailing_count) / trailing_count;
        if (index % trailing_count != 0) out += trailing_first + index % trailing_count;
    } else if (!(is_compatible &&
                 append_decomposition(out, code, compatible_runs, compatible_starts, compatible_texts)) &&
               !append_decomposition(out, code, canonical_runs, canonical_starts, canonical_texts)) {
        out += code;
    }
}

/// Puts marks in the order of their combining classes.
inline void order_marks(std::u32string& text) {
    for (std::size_t first = 0; first < text.size();) {
        if (combining_class(text[first]) == 0) {
            ++first;
            continue;
        }
        auto end = first;
        while (end < text.size() && combining_class(text[end]) != 0) ++end;
        detail::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(first),
                            text.begin() + static_cast<std::ptrdiff_t>(end),
                            [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
        first = end;
    }
}

/// The primary composite of two code points; 0 where there is none.
[[nodiscard]] constexpr char32_t composite_of(char32_t first, char32_t second) {
    if (first - leading_first < leading_count && second - vowel_first < vowel_count) {
        return hangul_first + ((first - leading_first) * vowel_count + (second - vowel_first)) * trailing_count;
    }
    if (first - hangul_first < hangul_count && (first - hangul_first) % trailing_count == 0 &&
        second > trailing_first && second < trailing_first + trailing_count) {
        return first + (second - trailing_first);
    }
    std::size_t low = 0;
    std::size_t high = composition_triples.size() / 9;
    while (low < high) {
        auto const middle = (low + high) / 2;
        auto const a = table_number(composition_triples, middle * 9, 3);
        auto const b = table_number(composition_triples, middle * 9 + 3, 3);
        if (a == first && b == second) return table_number(composition_triples, middle * 9 + 6, 3);
        if (a < first || (a == first && b < second)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

inline void compose(std::u32string& text) {
    std::size_t const none = text.size();
    auto starter = none;
    std::size_t kept = 0;
    std::uint32_t before = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        auto const code = text[at];
        auto const own = combining_class(code);
        bool const is_blocked = kept > 0 && starter != kept - 1 && (before == 0 || before >= own);
        if (starter != none && !is_blocked) {
            if (auto const both = composite_of(text[starter], code); both != 0) {
                text[starter] = both;
                continue;
            }
        }
        if (own == 0) starter = kept;
        before = own;
        text[kept++] = code;
    }
    text.resize(kept);
}

}  // namespace detail

/// The text in a normalisation form.
///
/// Source  UAX 15
[[nodiscard]] inline std::u32string normalize(std::u32string_view text, UnicodeForm form) {
    std::u32string out;
    out.reserve(text.size());
    bool const is_compatible = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
    for (auto const code : text) detail::append_decomposed(out, code, is_compatible);
    detail::order_marks(out);
    if (form == UnicodeForm::nfc || form == UnicodeForm::nfkc) detail::compose(out);
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
