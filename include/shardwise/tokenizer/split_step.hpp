// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/byte_tokens.hpp>
#include <shardwise/tokenizer/growth.hpp>
#include <shardwise/tokenizer/pattern.hpp>
#include <shardwise/tokenizer/text_piece.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What becomes of a match that a text is split at.
enum class SplitBehavior : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Cuts pieces at the matches of a pattern, or between them (`is_inverted`).
struct SplitAtMatches {
    Pattern pattern;
    SplitBehavior behavior = SplitBehavior::isolated;
    bool is_inverted = false;
};
/// Puts a character before each piece, or only before the text's first, unless it begins with it.
struct PrefixPieces {
    char32_t prefix = ' ';
    bool is_first_only = false;
};
/// Every such character becomes another.
struct ReplaceCharacter {
    char32_t from = ' ';
    char32_t to = ' ';
};
/// Bytes become the characters of byte-level vocabularies.
struct EncodeBytes {};

/// One step from a normalised text to the pieces that the model gets.
using SplitStep = std::variant<SplitAtMatches, PrefixPieces, ReplaceCharacter, EncodeBytes>;

namespace detail {

struct MarkedRange {
    TextRange range;
    bool is_match;
};

[[nodiscard]] inline std::vector<MarkedRange> mark_ranges(std::vector<TextRange> const& matches, std::size_t size,
                                                          bool is_inverted) {
    std::vector<MarkedRange> out;
    std::size_t at = 0;
    for (auto const& match : matches) {
        if (at != match.first) out.push_back({{at, match.first}, is_inverted});
        out.push_back({match, !is_inverted});
        at = match.end;
    }
    if (at != size) out.push_back({{at, size}, is_inverted});
    return out;
}

/// Joins each first of several matches to the range before it, in the order given.
[[nodiscard]] inline std::vector<MarkedRange> merge_matches(std::vector<MarkedRange> const& ranges) {
    std::vector<MarkedRange> out;
    bool was_match = false;
    for (auto const& next : ranges) {
        if (next.is_match && !was_match && !out.empty()) {
            out.back().range.first = std::min(out.back().range.first, next.range.first);
            out.back().range.end = std::max(out.back().range.end, next.range.end);
        } else {
            out.push_back({next.range, false});
        }
        was_match = next.is_match;
    }
    return out;
}

[[nodiscard]] inline std::vector<MarkedRange> behave(std::vector<MarkedRange> ranges, SplitBehavior behavior) {
    switch (behavior) {
        case SplitBehavior::isolated:
            break;
        case SplitBehavior::removed:
            std::erase_if(ranges, [](MarkedRange const& range) { return range.is_match; });
            break;
        case SplitBehavior::merged_with_previous:
            return merge_matches(ranges);
        case SplitBehavior::merged_with_next:
            std::reverse(ranges.begin(), ranges.end());
            ranges = merge_matches(ranges);
            std::reverse(ranges.begin(), ranges.end());
            break;
        case SplitBehavior::contiguous: {
            std::vector<MarkedRange> out;
            for (auto const& next : ranges) {
                if (!out.empty() && out.back().is_match == next.is_match) {
                    out.back().range.end = next.range.end;
                } else {
                    out.push_back(next);
                }
            }
            return out;
        }
    }
    return ranges;
}

inline Result<> split_at_matches(std::vector<TextPiece>& pieces, SplitAtMatches const& step) {
    std::vector<TextPiece> out;
    for (auto const& piece : pieces) {
        auto const matches = step.pattern.find_all(piece.text);
        if (!matches) return matches.error();
        for (auto const& part : behave(mark_ranges(*matches, piece.text.size(), step.is_inverted), step.behavior)) {
            auto const size = part.range.end - part.range.first;
            if (size == 0) continue;
            auto const first = part.range.first;
            auto const from_first = piece.from_first > first ? std::min(piece.from_first - first, size) : 0;
            out.push_back({piece.text.substr(first, size), from_first});
        }
    }
    pieces = std::move(out);
    return {};
}

}  // namespace detail

/// Applies one step to the pieces.
///
/// Errors  capacity_exceeded as Pattern::find_all
inline Result<> split_pieces(SplitStep const& step, std::vector<TextPiece>& pieces) {
    if (auto const* split = std::get_if<SplitAtMatches>(&step)) return detail::split_at_matches(pieces, *split);
    for (auto& piece : pieces) {
        if (auto const* prefix = std::get_if<PrefixPieces>(&step)) {
            if (prefix->is_first_only && piece.from_first == 0) continue;
            if (piece.text.starts_with(prefix->prefix)) continue;
            piece.text.insert(piece.text.begin(), prefix->prefix);
            if (piece.from_first > 0) ++piece.from_first;
        } else if (auto const* replace = std::get_if<ReplaceCharacter>(&step)) {
            std::replace(piece.text.begin(), piece.text.end(), replace->from, replace->to);
        } else {
            piece = {byte_level(piece.text), byte_level(piece.text.substr(0, piece.from_first)).size()};
        }
    }
    return {};
}

/// Applies all steps in their order; an error names the step. Pieces that `continue` a text do not have its beginning.
///
/// Errors  capacity_exceeded as Pattern::find_all, and where the pieces have more than `limit` code points together
inline Result<> split_pieces(std::vector<SplitStep> const& steps, std::vector<TextPiece>& pieces, std::size_t limit,
                             bool continues = false) {
    constexpr std::array<std::string_view, std::variant_size_v<SplitStep>> names{"Split", "prefix", "Metaspace",
                                                                                 "ByteLevel"};
    for (std::size_t i = 0; i < steps.size(); ++i) {
        // What was cut off before has pieces of its own, which get the prefix, too.
        if (std::holds_alternative<SplitAtMatches>(steps[i])) continues = false;
        if (continues && std::holds_alternative<PrefixPieces>(steps[i])) continue;
        auto done = split_pieces(steps[i], pieces);
        if (done) {
            std::size_t size = 0;
            for (auto const& piece : pieces) size += piece.text.size();
            if (size <= limit) continue;
            done = detail::grows_too_long("", limit);
        }
        return Error{done.error()}.at(detail::step_place("pre_tokenizer", i, names[steps[i].index()]));
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
