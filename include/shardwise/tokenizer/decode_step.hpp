// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/byte_tokens.hpp>
#include <shardwise/tokenizer/growth.hpp>
#include <shardwise/tokenizer/pattern.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Characters of byte-level vocabularies become their bytes; a token with any other character stays as it is.
struct DecodeByteLevel {};
/// Tokens such as `<0x0A>` become their bytes.
struct DecodeByteTokens {};
/// All tokens become one.
struct FuseTokens {};
/// Every such text within a token becomes another.
struct ReplaceInTokens {
    std::string text;
    std::string content;
};
/// The same with a pattern.
struct ReplaceMatchesInTokens {
    Pattern pattern;
    std::string content;
};
/// Up to so many of a character go at the ends of each token.
struct StripTokens {
    std::string character;
    std::size_t at_begin = 0;
    std::size_t at_end = 0;
};
/// Word marks become spaces, those of the first token nothing (`drops_first`).
struct DecodeWordMarks {
    std::string mark = "\xE2\x96\x81";
    bool drops_first = true;
};
/// Tokens that continue a word lose their prefix, others get a space before.
struct DecodeWordPieces {
    std::string prefix = "##";
    bool cleans_up = true;
};
/// The mark at the end of words becomes a space, that of the last nothing.
struct DecodeWordEnds {
    std::string suffix = "</w>";
};

/// One step from the texts of tokens to the text.
using DecodeStep = std::variant<DecodeByteLevel, DecodeByteTokens, FuseTokens, ReplaceInTokens, ReplaceMatchesInTokens,
                                StripTokens, DecodeWordMarks, DecodeWordPieces, DecodeWordEnds>;

namespace detail {

/// False where the text would become longer than `limit`.
[[nodiscard]] inline bool replace_all(std::string& text, std::string_view from, std::string_view to,
                                      std::size_t limit = SIZE_MAX) {
    if (from.empty() || text.find(from) == std::string::npos) return true;
    std::string out;
    std::size_t at = 0;
    for (auto found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
        if (out.size() + (found - at) + to.size() > limit) return false;
        out.append(text, at, found - at).append(to);
        at = found + from.size();
    }
    out.append(text, at);
    text = std::move(out);
    return true;
}

[[nodiscard]] inline std::string bytes_of_token(std::string const& token) {
    std::string bytes;
    for (auto const character : to_code_points(token)) {
        auto const byte = byte_of_character(character);
        if (!byte) return token;
        bytes += static_cast<char>(*byte);
    }
    return bytes;
}

/// Runs of byte tokens become one token each. Where a run is no UTF-8, each of its bytes becomes a replacement character,
/// or all stay as they are (`keeps_broken`).
inline void decode_byte_tokens(std::vector<std::string>& tokens, bool keeps_broken) {
    std::vector<std::string> out;
    std::string run;
    auto const flush = [&] {
        if (run.empty()) return;
        if (keeps_broken || to_valid_utf8(run) == run) {
            out.push_back(run);
        } else {
            for (std::size_t i = 0; i < run.size(); ++i) out.push_back(to_utf8(U"\uFFFD"));
        }
        run.clear();
    };
    for (auto& token : tokens) {
        if (auto const byte = byte_of_token(token)) {
            run += static_cast<char>(*byte);
        } else {
            flush();
            out.push_back(std::move(token));
        }
    }
    flush();
    tokens = std::move(out);
}

inline void strip_token(std::string& token, StripTokens const& step) {
    auto const size = step.character.size();
    if (size == 0) return;
    std::string_view rest = token;
    for (std::size_t i = 0; i < step.at_begin && rest.starts_with(step.character); ++i) rest.remove_prefix(size);
    for (std::size_t i = 0; i < step.at_end && rest.ends_with(step.character); ++i) rest.remove_suffix(size);
    token = std::string(rest);
}

inline void decode_word_pieces(std::vector<std::string>& tokens, DecodeWordPieces const& step) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        auto& token = tokens[i];
        if (i != 0 && !step.prefix.empty() && token.starts_with(step.prefix)) {
            token.erase(0, step.prefix.size());
        } else if (i != 0) {
            token.insert(0, " ");
        }
        if (!step.cleans_up) continue;
        // Source  transformers, clean_up_tokenization
        constexpr std::string_view pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                                 {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                                 {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
        for (auto const& pair : pairs) static_cast<void>(replace_all(token, pair[0], pair[1]));
    }
}

inline Result<> replace_matches(std::string& token, ReplaceMatchesInTokens const& step, std::size_t limit) {
    auto const codes = to_code_points(token);
    auto const found = step.pattern.find_all(codes);
    if (!found) return found.error();
    std::string out;
    std::size_t at = 0;
    for (auto const& range : *found) {
        out += to_utf8(std::u32string_view(codes).substr(at, range.first - at));
        if (out.size() + step.content.size() > limit) return grows_too_long("", limit);
        out += step.content;
        at = range.end;
    }
    if (!found->empty()) token = out + to_utf8(std::u32string_view(codes).substr(at));
    return {};
}

[[nodiscard]] inline std::size_t size_of(std::vector<std::string> const& tokens) {
    std::size_t size = 0;
    for (auto const& token : tokens) size += token.size();
    return size;
}

/// Replaces in each token; together they have at most `limit` bytes.
template <class Replace>
Result<> replace_in_tokens(std::vector<std::string>& tokens, std::size_t limit, Replace replace) {
    std::size_t size = 0;
    for (auto& token : tokens) {
        if (auto const done = replace(token, limit - size); !done) return done.error();
        size += token.size();
        if (size > limit) return grows_too_long("", limit);
    }
    return {};
}

}  // namespace detail

/// Applies one step to the tokens. With `keeps_broken`, bytes that are no UTF-8 stay, for those who join texts.
///
/// Errors  capacity_exceeded as Pattern::find_all, and where replacements make more than `limit` bytes of the tokens
inline Result<> decode_tokens(DecodeStep const& step, std::vector<std::string>& tokens, bool keeps_broken,
                              std::size_t limit) {
    if (std::holds_alternative<DecodeByteTokens>(step)) {
        detail::decode_byte_tokens(tokens, keeps_broken);
    } else if (auto const* pieces = std::get_if<DecodeWordPieces>(&step)) {
        detail::decode_word_pieces(tokens, *pieces);
    } else if (std::holds_alternative<FuseTokens>(step) || std::holds_alternative<DecodeByteLevel>(step)) {
        bool const is_byte_level = std::holds_alternative<DecodeByteLevel>(step);
        std::string all;
        for (auto const& token : tokens) all += is_byte_level ? detail::bytes_of_token(token) : token;
        if (is_byte_level && !keeps_broken) all = to_valid_utf8(all);
        tokens.assign(1, std::move(all));
    } else if (auto const* replace = std::get_if<ReplaceInTokens>(&step)) {
        return detail::replace_in_tokens(tokens, limit, [&](std::string& token, std::size_t most) -> Result<> {
            if (detail::replace_all(token, replace->text, replace->content, most)) return {};
            return detail::grows_too_long("", limit);
        });
    } else if (auto const* matches = std::get_if<ReplaceMatchesInTokens>(&step)) {
        return detail::replace_in_tokens(tokens, limit, [&](std::string& token, std::size_t most) {
            return detail::replace_matches(token, *matches, most);
        });
    } else if (auto const* strip = std::get_if<StripTokens>(&step)) {
        for (auto& token : tokens) detail::strip_token(token, *strip);
    } else if (auto const* marks = std::get_if<DecodeWordMarks>(&step)) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            static_cast<void>(detail::replace_all(tokens[i], marks->mark, i == 0 && marks->drops_first ? "" : " "));
        }
    } else if (auto const* ends = std::get_if<DecodeWordEnds>(&step)) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            static_cast<void>(detail::replace_all(tokens[i], ends->suffix, i + 1 == tokens.size() ? "" : " "));
        }
    }
    return {};
}

/// Applies all steps in their order; an error names the step.
inline Result<> decode_tokens(std::vector<DecodeStep> const& steps, std::vector<std::string>& tokens,
                              bool keeps_broken) {
    constexpr std::array<std::string_view, std::variant_size_v<DecodeStep>> names{
        "ByteLevel", "ByteFallback", "Fuse", "Replace", "Replace", "Strip", "Metaspace", "WordPiece", "BPEDecoder"};
    auto const limit = max_grown_size(detail::size_of(tokens));
    for (std::size_t i = 0; i < steps.size() && !tokens.empty(); ++i) {
        if (auto const done = decode_tokens(steps[i], tokens, keeps_broken, limit); !done) {
            return Error{done.error()}.at(detail::step_place("decoder", i, names[steps[i].index()]));
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
