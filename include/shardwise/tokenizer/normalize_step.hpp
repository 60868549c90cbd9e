// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/byte_tokens.hpp>
#include <shardwise/tokenizer/growth.hpp>
#include <shardwise/tokenizer/pattern.hpp>
#include <shardwise/tokenizer/precompiled_map.hpp>
#include <shardwise/tokenizer/text_piece.hpp>
#include <shardwise/tokenizer/unicode_normalize.hpp>

#include <algorithm>
#include <array>
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
                                   PrependText, StripSpace, ToByteLevel, PrecompiledMap>;

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

/// A match counts as its last code point, where it is asked what comes from the first one of the text.
inline Result<> replace_matches(TextPiece& piece, ReplaceMatches const& step, std::size_t limit) {
    auto const found = step.pattern.find_all(piece.text);
    if (!found) return found.error();
    if (found->empty()) return {};
    std::u32string out;
    std::size_t from_first = 0;
    std::size_t at = 0;
    for (auto const& range : *found) {
        out.append(piece.text, at, range.first - at);
        if (at < piece.from_first)
            from_first = out.size() - (std::max(range.first, piece.from_first) - piece.from_first);
        if (out.size() + step.content.size() > limit) return grows_too_long("Replace", limit);
        out += step.content;
        if (piece.from_first > 0 && range.end <= piece.from_first) from_first = out.size();
        at = range.end;
    }
    if (at < piece.from_first) from_first = out.size() + piece.from_first - at;
    out.append(piece.text, at);
    piece = {std::move(out), from_first};
    return {};
}

inline void strip_space(TextPiece& piece, StripSpace const& step) {
    auto const& text = piece.text;
    std::size_t first = 0;
    auto end = text.size();
    while (step.at_begin && first < end && is_white_space(text[first])) ++first;
    while (step.at_end && end > first && is_white_space(text[end - 1])) --end;
    piece = {text.substr(first, end - first), std::min(end, std::max(first, piece.from_first)) - first};
}

/// The steps that look at one code point after the other.
inline void rewrite(NormalizeStep const& step, std::u32string& text) {
    if (auto const* form = std::get_if<NormalizeForm>(&step)) {
        text = normalize(text, form->form);
    } else if (std::holds_alternative<LowercaseText>(step)) {
        lower(text);
    } else if (std::holds_alternative<StripMarks>(step)) {
        std::erase_if(text, is_accent);
    } else if (auto const* bert = std::get_if<NormalizeForBert>(&step)) {
        normalize_for_bert(text, *bert);
    } else {
        text = byte_level(text);
    }
}

/// What a tokenizer.json calls the steps, in their order.
inline constexpr std::array<std::string_view, std::variant_size_v<NormalizeStep>> normalize_step_names{
    "normalization form", "Lowercase",  "StripAccents", "BertNormalizer", "Replace", "Prepend", "Strip",
    "ByteLevel",          "Precompiled"};

}  // namespace detail

/// Applies one step.
///
/// Errors  capacity_exceeded as Pattern::find_all, and where the text would have more than `limit` code points
inline Result<> normalize_text(NormalizeStep const& step, TextPiece& piece, std::size_t limit) {
    auto const name = detail::normalize_step_names[step.index()];
    if (auto const* replace = std::get_if<ReplaceMatches>(&step))
        return detail::replace_matches(piece, *replace, limit);
    if (auto const* prepend = std::get_if<PrependText>(&step)) {
        if (piece.text.empty()) return {};
        if (piece.text.size() + prepend->text.size() > limit) return detail::grows_too_long(name, limit);
        piece.text.insert(0, prepend->text);
        if (piece.from_first > 0) piece.from_first += prepend->text.size();
    } else if (auto const* map = std::get_if<PrecompiledMap>(&step)) {
        auto const front = map->apply(std::u32string_view(piece.text).substr(0, piece.from_first));
        auto text = map->apply(piece.text);
        if (!text) return text.error();
        piece = {std::move(*text), front ? front->size() : 0};
        piece.from_first = std::min(piece.from_first, piece.text.size());
    } else if (auto const* strip = std::get_if<StripSpace>(&step)) {
        detail::strip_space(piece, *strip);
    } else {
        auto front = piece.text.substr(0, piece.from_first);
        detail::rewrite(step, front);
        detail::rewrite(step, piece.text);
        piece.from_first = std::min(front.size(), piece.text.size());
    }
    if (piece.text.size() > limit) return detail::grows_too_long(name, limit);
    return {};
}

/// Applies all steps in their order; an error names the step. A piece that `continues` a text does not have its beginning.
inline Result<> normalize_text(std::vector<NormalizeStep> const& steps, TextPiece& piece, std::size_t limit,
                               bool continues = false) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
        if (continues && std::holds_alternative<PrependText>(steps[i])) continue;
        if (auto const* strip = std::get_if<StripSpace>(&steps[i]); continues && strip != nullptr) {
            detail::strip_space(piece, {false, strip->at_end});
            continue;
        }
        if (auto const done = normalize_text(steps[i], piece, limit); !done) {
            auto const name = detail::normalize_step_names[steps[i].index()];
            return Error{done.error()}.at(detail::step_place("normalizer", i, name));
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
