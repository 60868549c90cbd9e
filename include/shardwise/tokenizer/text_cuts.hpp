// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/added_tokens.hpp>
#include <shardwise/tokenizer/bpe_model.hpp>
#include <shardwise/tokenizer/normalize_step.hpp>
#include <shardwise/tokenizer/scored_model.hpp>
#include <shardwise/tokenizer/split_step.hpp>
#include <shardwise/tokenizer/unicode.hpp>
#include <shardwise/tokenizer/unicode_normalize.hpp>
#include <shardwise/tokenizer/utf8.hpp>
#include <shardwise/tokenizer/vocabulary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Letters, digits, punctuation and symbols that stay as they are whatever stands beside them: no marks, no parts of Hangul syllables,
/// and none that joins a mark's cluster.
[[nodiscard]] inline bool is_plain(char32_t code) {
    if (code > 0xFFFF || code == 0x0D4E || code == 0x0E33 || code == 0x0EB3 || code == replacement_character)
        return false;
    bool const is_hangul_part = (code >= 0x1100 && code <= 0x11FF) || (code >= 0x3130 && code <= 0x318F) ||
                                (code >= 0xA960 && code <= 0xA97F) || (code >= 0xD7B0 && code <= 0xD7FF);
    if (is_hangul_part || (code >= 0xFF9E && code <= 0xFFDC)) return false;
    return is_in(code, unicode::letters | unicode::numbers | unicode::punctuation | unicode::symbols);
}

/// Whether a model makes tokens of a piece that has these two neighbours as it does of what stands before and after their border apart.
/// Other models than these two weigh the whole piece.
template <class Model>
[[nodiscard]] bool parts_pieces(Model const&, char32_t, char32_t) {
    return false;
}
/// No token has both neighbours, so that none is merged over the border.
[[nodiscard]] inline bool has_both(Vocabulary const& vocabulary, char32_t before, char32_t after) {
    auto const both = to_utf8(std::u32string{before, after});
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
        auto const text = vocabulary.text(static_cast<TokenId>(id));
        if (text && text->find(both) != std::string_view::npos) return true;
    }
    return false;
}
[[nodiscard]] inline bool parts_pieces(BpeModel const& model, char32_t before, char32_t after) {
    // These look at where a piece begins and ends.
    if (model.ignores_merges || !model.continuing_prefix.empty() || !model.end_suffix.empty()) return false;
    auto const is_token = [&](char32_t code) {
        return model.vocabulary.find(to_utf8(std::u32string{code})).has_value();
    };
    return is_token(before) && is_token(after) && !has_both(model.vocabulary, before, after);
}
[[nodiscard]] inline bool parts_pieces(ScoredModel const& model, char32_t before, char32_t after) {
    return !has_both(model.vocabulary, before, after);
}

/// Places at which a text may be cut so that the tokens of both sides, one after the other, are those of the whole: between two code
/// points that neither added tokens, nor the steps of the tokenizer, nor its model look across, whatever else the text has.
///
/// It follows what the two neighbours become from step to step. A pattern that does not look across gives the same matches on both
/// sides; then a piece of the whole may still lie across the place, until a step is sure to cut there or the model does not mind.
template <class Model>
class TextCuts {
public:
    /// All of them outlive this object.
    TextCuts(std::vector<NormalizeStep> const& normalizer, std::vector<SplitStep> const& splitter, Model const& model,
             AddedTokenFinder const& verbatim, AddedTokenFinder const& normalized)
        : normalizer_(normalizer), splitter_(splitter), model_(model), verbatim_(verbatim), normalized_(normalized) {}

    /// The first such place at `least` or after it; the end of the text where there is none.
    ///
    /// Units  bytes
    [[nodiscard]] std::size_t next(std::string_view text, std::size_t least) {
        for (auto at = std::max<std::size_t>(least, 1); at < text.size(); ++at) {
            auto const before = code_before(text, at);
            if (!before || !is_plain(before->code)) continue;
            auto const after = code_at(text, at);
            if (!after || !is_base(after->code)) continue;
            // What joins the one before, or follows the one after, could change them.
            auto const first = at - before->size;
            auto const outer = code_before(text, first);
            if (first > 0 && (!outer || !is_base(outer->code))) continue;
            auto const end = at + after->size;
            auto const follower = code_at(text, end);
            if (end < text.size() && (!follower || !is_base(follower->code))) continue;
            auto const key = std::uint64_t{before->code} << 32U | after->code;
            auto known = known_.find(key);
            if (known == known_.end()) known = known_.emplace(key, is_cut(before->code, after->code)).first;
            if (known->second) return at;
        }
        return text.size();
    }

private:
    struct Code {
        char32_t code;
        std::size_t size;
    };

    [[nodiscard]] static bool is_base(char32_t code) { return is_plain(code) || is_white_space(code); }
    [[nodiscard]] static std::optional<Code> code_at(std::string_view text, std::size_t at) {
        if (at >= text.size()) return std::nullopt;
        auto const size = utf8_length(text.substr(at));
        if (size == 0) return std::nullopt;
        return Code{utf8_code_point(text.substr(at), size), size};
    }
    [[nodiscard]] static std::optional<Code> code_before(std::string_view text, std::size_t at) {
        for (std::size_t size = 1; size <= 4 && size <= at; ++size) {
            if ((static_cast<unsigned char>(text[at - size]) & 0xC0U) == 0x80U) continue;
            auto const code = code_at(text, at - size);
            if (!code || code->size != size) return std::nullopt;
            return code;
        }
        return std::nullopt;
    }

    [[nodiscard]] bool is_cut(char32_t before, char32_t after) const {
        if (verbatim_.touches(before, after)) return false;
        for (auto const& step : normalizer_) {
            if (!normalize(step, before, after) || !is_plain(before) || !is_base(after)) return false;
        }
        if (normalized_.touches(before, after)) return false;
        bool has_split = false;
        for (auto const& step : splitter_) {
            if (auto const* split = std::get_if<SplitAtMatches>(&step)) {
                auto const cuts = cut_by(*split, before, after);
                if (cuts) return *cuts;
                has_split = true;
            } else if (auto const* prefix = std::get_if<PrefixPieces>(&step)) {
                if (has_split && !prefix->is_first_only) return false;
            } else if (auto const* replace = std::get_if<ReplaceCharacter>(&step)) {
                if (before == replace->from) before = replace->to;
                if (after == replace->from) after = replace->to;
            } else {
                before = byte_level(std::u32string{before}).back();
                after = byte_level(std::u32string{after}).front();
            }
        }
        return parts_pieces(model_, before, after);
    }

    /// Follows both through a step of the normaliser; false where one may become something else beside other neighbours.
    [[nodiscard]] static bool normalize(NormalizeStep const& step, char32_t& before, char32_t& after) {
        if (std::holds_alternative<PrependText>(step) || std::holds_alternative<StripSpace>(step)) return true;
        if (auto const* replace = std::get_if<ReplaceMatches>(&step)) {
            if (replace->pattern.reads(before) || !replace->pattern.is_parted_by(before, after)) return false;
            if (!replace->pattern.reads(after)) return true;
            if (!replace->pattern.is_one_of_set() || replace->content.empty()) return false;
            after = replace->content.front();
            return true;
        }
        // A carriage return stays with a line feed.
        if (std::holds_alternative<PrecompiledMap>(step) && after == U'\r') return false;
        auto const changed = [&step](std::u32string text) {
            TextPiece piece{std::move(text), 0};
            auto const done = normalize_text(step, piece, max_grown_size(2));
            return done ? piece.text : std::u32string{};
        };
        auto const left = changed({before});
        auto const right = changed({after});
        if (left.empty() || right.empty() || changed({before, after}) != left + right) return false;
        before = left.back();
        after = right.front();
        return true;
    }

    /// Whether a step is sure to cut here, or spoils it; nothing where a piece may lie across.
    [[nodiscard]] static std::optional<bool> cut_by(SplitAtMatches const& step, char32_t before, char32_t after) {
        auto const& pattern = step.pattern;
        if (!pattern.is_parted_by(before, after)) return false;
        bool const reads_before = pattern.reads(before);
        bool const reads_after = pattern.reads(after);
        // A match of one code point begins wherever there is one.
        bool const begins = pattern.is_one_of_set() && reads_after;
        switch (step.behavior) {
            case SplitBehavior::removed:
            case SplitBehavior::isolated: {
                if (begins) return true;
                auto const found = pattern.find_all(std::u32string{before});
                if (found && found->size() == 1 && found->front().first == 0 && found->front().end == 1) return true;
                return std::nullopt;
            }
            case SplitBehavior::contiguous:
                if (pattern.is_one_of_set() && reads_before != reads_after) return true;
                return std::nullopt;
            case SplitBehavior::merged_with_next:
                if (begins && !reads_before && !step.is_inverted) return true;
                break;
            case SplitBehavior::merged_with_previous:
                break;
        }
        // What joins what is decided on each side alone where neither belongs to a match.
        if (reads_before || reads_after || step.is_inverted) return false;
        return std::nullopt;
    }

    std::vector<NormalizeStep> const& normalizer_;
    std::vector<SplitStep> const& splitter_;
    Model const& model_;
    AddedTokenFinder const& verbatim_;
    AddedTokenFinder const& normalized_;
    std::unordered_map<std::uint64_t, bool> known_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
