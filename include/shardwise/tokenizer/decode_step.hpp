// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/byte_tokens.hpp>
#include <shardwise/tokenizer/pattern.hpp>

#include <algorithm>
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

/// False where the text would become too long.
[[nodiscard]] inline bool replace_all(std::string& text, std::string_view from, std::string_view to) {
    if (from.empty() || text.find(from) == std::string::npos) return true;
    std::string out;
    std::size_t at = 0;
    for (auto found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
        out.append(text, at, found - at).append(to);
        at = found + from.size();
        if (out.size() > max_replaced_text) return false;
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
    if (step.character.empty()) return;
    for (std::size_t i = 0; i < step.at_begin && token.starts_with(step.character); ++i)
        token.erase(0, step.character.size());
    for (std::size_t i = 0; i < step.at_end && token.ends_with(step.character); ++i) {
        token.erase(token.size() - step.character.size());
    }
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

inline Result<> replace_matches(std::string& token, ReplaceMatchesInTokens const& step) {
    auto const codes = to_code_points(token);
    auto const found = step.pattern.find_all(codes);
    if (!found) return found.error();
    std::string out;
    std::size_t at = 0;
    for (auto const& range : *found) {
        out += to_utf8(std::u32string_view(codes).substr(at, range.first - at)) + step.content;
        at = range.end;
        if (out.size() > max_replaced_text) return too_long_replacement();
    }
    if (!found->empty()) token = out + to_utf8(std::u32string_view(codes).substr(at));
    return {};
}

}  // namespace detail

/// Applies one step to the tokens. With `keeps_broken`, bytes that are no UTF-8 stay, for those who join texts.
///
/// Errors  capacity_exceeded as Pattern::find_all
inline Result<> decode_tokens(DecodeStep const& step, std::vector<std::string>& tokens, bool keeps_broken) {
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
        for (auto& token : tokens) {
            if (!detail::replace_all(token, replace->text, replace->content)) return detail::too_long_replacement();
        }
    } else if (auto const* matches = std::get_if<ReplaceMatchesInTokens>(&step)) {
        for (auto& token : tokens) {
            if (auto const done = detail::replace_matches(token, *matches); !done) return done.error();
        }
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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
