// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/files/json_part.hpp>
#include <shardwise/tokenizer/parse_pattern.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A pattern that this library itself gives.
[[nodiscard]] inline Pattern known_pattern(std::string_view text) {
    auto pattern = parse_pattern(text);
    return pattern ? std::move(*pattern) : Pattern::literal(U"");
}

/// What byte-level vocabularies cut at unless their file says otherwise.
///
/// Source  GPT-2, encoder.py
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Words, or what is neither word nor space: `\w+|[^\w\s]+` with the word characters of Rust's regex, which differ
/// from those of all other patterns in joiners and in the numbers of Latin-1 that are no digits.
///
/// Source  tokenizers 0.22, pre_tokenizers/whitespace.rs
inline constexpr std::string_view whitespace_pattern =
    R"((?:(?![²³¹¼½¾])[\w\u200C\u200D])+|(?:[^\w\s\u200C\u200D]|[²³¹¼½¾])+)";

/// {"String": ...} or {"Regex": ...}
[[nodiscard]] inline Pattern read_pattern(JsonPart const& step) {
    if (auto const pattern = step.find("pattern")) {
        if (pattern->value().find("String")) return Pattern::literal(to_code_points(pattern->text("String")));
        if (pattern->value().find("Regex")) {
            auto parsed = parse_pattern(pattern->text("Regex"));
            if (parsed) return std::move(*parsed);
            step.errors().note(parsed.error());
            return Pattern::literal(U"");
        }
    }
    step.refuse(ErrorCode::invalid_field, "pattern", "must have a String or a Regex");
    return Pattern::literal(U"");
}

inline constexpr int max_step_depth = 16;

/// Whether a list has all the steps that it may; noted where it has.
template <class Step>
[[nodiscard]] bool is_full(JsonPart const& step, std::vector<Step> const& steps) {
    if (steps.size() < max_tokenizer_steps) return false;
    step.refuse(ErrorCode::capacity_exceeded, {},
                "is beyond the " + std::to_string(max_tokenizer_steps) + " steps that a tokenizer may have");
    return true;
}

/// Calls `read` with each element of the sequence `key`.
template <class Read>
void read_sequence(JsonPart const& step, std::string_view key, int depth, Read read) {
    if (depth == max_step_depth) return step.refuse(ErrorCode::capacity_exceeded, {}, "is nested too deep");
    auto const list = step.find(key);
    if (!list || !list->value().is_array()) return step.refuse(ErrorCode::invalid_field, key, "must be a list");
    std::size_t index = 0;
    for (auto const value : list->value()) read(list->element(value, index++), depth + 1);
}

inline void read_normalizer(JsonPart const& step, std::vector<NormalizeStep>& out, int depth = 0) {
    if (is_full(step, out)) return;
    auto const type = step.type();
    if (type == "Sequence") {
        read_sequence(step, "normalizers", depth,
                      [&](JsonPart const& inner, int at) { read_normalizer(inner, out, at); });
    } else if (type == "NFC") {
        out.push_back(NormalizeForm{UnicodeForm::nfc});
    } else if (type == "NFD") {
        out.push_back(NormalizeForm{UnicodeForm::nfd});
    } else if (type == "NFKC") {
        out.push_back(NormalizeForm{UnicodeForm::nfkc});
    } else if (type == "NFKD") {
        out.push_back(NormalizeForm{UnicodeForm::nfkd});
    } else if (type == "Lowercase") {
        out.push_back(LowercaseText{});
    } else if (type == "StripAccents") {
        out.push_back(StripMarks{});
    } else if (type == "BertNormalizer") {
        NormalizeForBert bert;
        bert.cleans = step.flag("clean_text", true);
        bert.separates_chinese = step.flag("handle_chinese_chars", true);
        bert.lowers = step.flag("lowercase", true);
        bert.strips_accents = step.flag("strip_accents", bert.lowers);
        out.push_back(bert);
    } else if (type == "Replace") {
        out.push_back(ReplaceMatches{read_pattern(step), to_code_points(step.text("content"))});
    } else if (type == "Prepend") {
        out.push_back(PrependText{to_code_points(step.text("prepend"))});
    } else if (type == "Strip") {
        out.push_back(StripSpace{step.flag("strip_left", true), step.flag("strip_right", true)});
    } else if (type == "ByteLevel") {
        out.push_back(ToByteLevel{});
    } else if (type == "Precompiled") {
        auto const bytes = read_base64(step.text("precompiled_charsmap"));
        auto map = bytes ? PrecompiledMap::read(*bytes) : Result<PrecompiledMap>(Error{ErrorCode::malformed_file});
        if (!map) return step.refuse(ErrorCode::invalid_field, "precompiled_charsmap", "holds no table of characters");
        out.push_back(std::move(*map));
    } else {
        step.refuse_kind(type);
    }
}

[[nodiscard]] inline SplitBehavior read_behavior(JsonPart const& step, std::string_view otherwise) {
    auto const name = step.text("behavior", otherwise);
    if (name == "Removed") return SplitBehavior::removed;
    if (name == "Isolated") return SplitBehavior::isolated;
    if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
    if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
    if (name == "Contiguous") return SplitBehavior::contiguous;
    step.refuse(ErrorCode::invalid_field, "behavior", "is none that there is");
    return SplitBehavior::isolated;
}

/// Whether Metaspace and its decoder mark the beginning: always, first or never.
[[nodiscard]] inline std::string_view read_prepend_scheme(JsonPart const& step) {
    auto const scheme = step.text("prepend_scheme", step.flag("add_prefix_space", true) ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never") {
        step.refuse(ErrorCode::invalid_field, "prepend_scheme", "is none that there is");
    }
    return scheme;
}

inline void read_meta_space(JsonPart const& step, std::vector<SplitStep>& out) {
    auto const mark = to_code_points(step.text("replacement", "\xE2\x96\x81"));
    if (mark.size() != 1) return step.refuse(ErrorCode::invalid_field, "replacement", "must be one character");
    auto const scheme = read_prepend_scheme(step);
    out.push_back(ReplaceCharacter{U' ', mark[0]});
    if (scheme != "never") out.push_back(PrefixPieces{mark[0], scheme == "first"});
    if (!step.flag("split", true)) return;
    out.push_back(SplitAtMatches{Pattern::literal(mark), SplitBehavior::merged_with_next, false});
}

/// BERT cuts at white space, and around each punctuation mark.
[[nodiscard]] inline std::vector<SplitStep> bert_splitter() {
    return {SplitAtMatches{known_pattern(R"(\s)"), SplitBehavior::removed, false},
            SplitAtMatches{Pattern::one_between(punctuation_borders), SplitBehavior::isolated, false}};
}

inline void read_splitter(JsonPart const& step, std::vector<SplitStep>& out, int depth = 0) {
    if (is_full(step, out)) return;
    auto const split = [&](std::string_view pattern, SplitBehavior behavior, bool is_inverted = false) {
        out.push_back(SplitAtMatches{known_pattern(pattern), behavior, is_inverted});
    };
    auto const split_at_one = [&](std::string_view borders, SplitBehavior behavior) {
        out.push_back(SplitAtMatches{Pattern::one_between(borders), behavior, false});
    };
    auto const type = step.type();
    if (type == "Sequence") {
        read_sequence(step, "pretokenizers", depth,
                      [&](JsonPart const& inner, int at) { read_splitter(inner, out, at); });
    } else if (type == "ByteLevel") {
        if (step.flag("add_prefix_space", true)) out.push_back(PrefixPieces{U' ', false});
        if (step.flag("use_regex", true)) split(gpt2_pattern, SplitBehavior::isolated);
        out.push_back(EncodeBytes{});
    } else if (type == "Whitespace") {
        split(whitespace_pattern, SplitBehavior::removed, true);
    } else if (type == "WhitespaceSplit") {
        split(R"(\s)", SplitBehavior::removed);
    } else if (type == "BertPreTokenizer") {
        for (auto& inner : bert_splitter()) out.push_back(std::move(inner));
    } else if (type == "Punctuation") {
        split_at_one(punctuation_borders, read_behavior(step, "Isolated"));
    } else if (type == "Digits") {
        split_at_one(numeric_borders,
                     step.flag("individual_digits", false) ? SplitBehavior::isolated : SplitBehavior::contiguous);
    } else if (type == "CharDelimiterSplit") {
        out.push_back(
            SplitAtMatches{Pattern::literal(to_code_points(step.text("delimiter"))), SplitBehavior::removed, false});
    } else if (type == "Split") {
        out.push_back(SplitAtMatches{read_pattern(step), read_behavior(step, {}), step.flag("invert", false)});
    } else if (type == "Metaspace") {
        read_meta_space(step, out);
    } else {
        step.refuse_kind(type);
    }
}

inline void read_decoder(JsonPart const& step, std::vector<DecodeStep>& out, int depth = 0) {
    if (is_full(step, out)) return;
    auto const type = step.type();
    auto const count = [&](std::string_view key) {
        return static_cast<std::size_t>(std::max<std::int64_t>(0, step.integer(key, 0)));
    };
    if (type == "Sequence") {
        read_sequence(step, "decoders", depth, [&](JsonPart const& inner, int at) { read_decoder(inner, out, at); });
    } else if (type == "ByteLevel") {
        out.push_back(DecodeByteLevel{});
    } else if (type == "ByteFallback") {
        out.push_back(DecodeByteTokens{});
    } else if (type == "Fuse") {
        out.push_back(FuseTokens{});
    } else if (type == "Strip") {
        out.push_back(StripTokens{std::string(step.text("content")), count("start"), count("stop")});
    } else if (type == "Replace") {
        auto const pattern = step.find("pattern");
        if (pattern && pattern->value().find("String")) {
            out.push_back(ReplaceInTokens{std::string(pattern->text("String")), std::string(step.text("content"))});
        } else {
            out.push_back(ReplaceMatchesInTokens{read_pattern(step), std::string(step.text("content"))});
        }
    } else if (type == "Metaspace") {
        out.push_back(DecodeWordMarks{std::string(step.text("replacement", "\xE2\x96\x81")),
                                      read_prepend_scheme(step) != "never"});
    } else if (type == "WordPiece") {
        out.push_back(DecodeWordPieces{std::string(step.text("prefix", "##")), step.flag("cleanup", true)});
    } else if (type == "BPEDecoder") {
        out.push_back(DecodeWordEnds{std::string(step.text("suffix", "</w>"))});
    } else {
        step.refuse_kind(type);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
