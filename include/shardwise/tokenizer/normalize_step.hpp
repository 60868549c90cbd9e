// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/byte_tokens.hpp>
#include <shardwise/tokenizer/pattern.hpp>
#include <shardwise/tokenizer/unicode_normalize.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A normalisation form of Unicode.
struct NormalizeForm {
    UnicodeForm form = UnicodeForm::nfc;
};
/// Lower case without regard to neighbours or language.
struct LowercaseText {};
/// Removes every mark (M).
struct StripMarks {};
/// What BERT does: control characters out, any white space to a space, Chinese characters apart, marks out, lower case.
struct NormalizeForBert {
    bool cleans = true;
    bool separates_chinese = true;
    bool strips_accents = true;
    bool lowers = true;
};
/// Every match becomes `content`.
struct ReplaceMatches {
    Pattern pattern;
    std::u32string content;
};
/// Put before a text that is not empty.
struct PrependText {
    std::u32string text;
};
/// White space at the ends goes.
struct StripSpace {
    bool at_begin = true;
    bool at_end = true;
};
/// Bytes become the characters of byte-level vocabularies.
struct ToByteLevel {};

/// One step from a text to the text that is cut.
using NormalizeStep = std::variant<NormalizeForm, LowercaseText, StripMarks, NormalizeForBert, ReplaceMatches,
                                   PrependText, StripSpace, ToByteLevel>;

namespace detail {

inline void lower(std::u32string& text) {
    std::u32string out;
    out.reserve(text.size());
    for (auto const code : text) {
        if (code == 0x130) {
            out += U"i\u0307";
        } else {
            out += to_lower(code);
        }
    }
    text = std::move(out);
}

[[nodiscard]] constexpr bool is_chinese_character(char32_t code) {
    // Source  google-research/bert, tokenization.py, _is_chinese_char
    return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
           (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
           (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
           (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

inline void normalize_for_bert(std::u32string& text, NormalizeForBert const& step) {
    if (step.cleans) {
        std::u32string out;
        for (auto const code : text) {
            if (!is_bert_control(code)) out += is_white_space(code) ? U' ' : code;
        }
        text = std::move(out);
    }
    if (step.separates_chinese) {
        std::u32string out;
        for (auto const code : text) {
            if (is_chinese_character(code)) {
                (((out += U' ') += code) += U' ');
            } else {
                out += code;
            }
        }
        text = std::move(out);
    }
    if (step.strips_accents) {
        text = normalize(text, UnicodeForm::nfd);
        std::erase_if(text, is_bert_accent);
    }
    if (step.lowers) lower(text);
}

inline Result<> replace_matches(std::u32string& text, ReplaceMatches const& step) {
    auto const found = step.pattern.find_all(text);
    if (!found) return found.error();
    if (found->empty()) return {};
    std::u32string out;
    std::size_t at = 0;
    for (auto const& range : *found) {
        out.append(text, at, range.first - at).append(step.content);
        at = range.end;
        if (out.size() > max_replaced_text) return too_long_replacement();
    }
    out.append(text, at);
    text = std::move(out);
    return {};
}

inline void strip_space(std::u32string& text, StripSpace const& step) {
    std::size_t first = 0;
    auto end = text.size();
    while (step.at_begin && first < end && is_white_space(text[first])) ++first;
    while (step.at_end && end > first && is_white_space(text[end - 1])) --end;
    text = text.substr(first, end - first);
}

}  // namespace detail

/// Whether a step takes away the first code point, so that the text no longer begins where it began.
[[nodiscard]] inline bool removes_first(NormalizeStep const& step, std::u32string_view text) {
    if (text.empty()) return false;
    if (std::holds_alternative<StripMarks>(step)) return is_accent(text[0]);
    if (auto const* strip = std::get_if<StripSpace>(&step)) return strip->at_begin && is_white_space(text[0]);
    return false;
}

/// Applies one step.
///
/// Errors  capacity_exceeded as Pattern::find_all
inline Result<> normalize_text(NormalizeStep const& step, std::u32string& text) {
    if (auto const* form = std::get_if<NormalizeForm>(&step)) {
        text = normalize(text, form->form);
    } else if (std::holds_alternative<LowercaseText>(step)) {
        detail::lower(text);
    } else if (std::holds_alternative<StripMarks>(step)) {
        std::erase_if(text, is_accent);
    } else if (auto const* bert = std::get_if<NormalizeForBert>(&step)) {
        detail::normalize_for_bert(text, *bert);
    } else if (auto const* replace = std::get_if<ReplaceMatches>(&step)) {
        return detail::replace_matches(text, *replace);
    } else if (auto const* prepend = std::get_if<PrependText>(&step)) {
        if (!text.empty()) text.insert(0, prepend->text);
    } else if (auto const* strip = std::get_if<StripSpace>(&step)) {
        detail::strip_space(text, *strip);
    } else {
        text = byte_level(text);
    }
    return {};
}

/// Applies all steps in their order.
inline Result<> normalize_text(std::vector<NormalizeStep> const& steps, std::u32string& text) {
    for (auto const& step : steps) {
        if (auto const done = normalize_text(step, text); !done) return done.error();
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
