// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/added_tokens.hpp>
#include <shardwise/tokenizer/bpe_model.hpp>
#include <shardwise/tokenizer/decode_step.hpp>
#include <shardwise/tokenizer/growth.hpp>
#include <shardwise/tokenizer/normalize_step.hpp>
#include <shardwise/tokenizer/scored_model.hpp>
#include <shardwise/tokenizer/split_step.hpp>
#include <shardwise/tokenizer/text_cuts.hpp>
#include <shardwise/tokenizer/unigram_model.hpp>
#include <shardwise/tokenizer/word_piece_model.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How pieces become tokens.
using TokenModel = std::variant<BpeModel, ScoredModel, WordPieceModel, WordLevelModel, UnigramModel>;

/// All that makes a tokenizer, as plain data; a reader of a file fills it in.
struct TokenizerParts {
    std::vector<NormalizeStep> normalizer;
    std::vector<SplitStep> splitter;
    TokenModel model;
    std::vector<AddedToken> added;
    std::vector<TokenId> before;  // what stands before the tokens of a text, such as the beginning of a sequence
    std::vector<TokenId> after;
    std::vector<DecodeStep> decoder;
    bool joins_with_spaces = false;  // tokens are joined with a space where there is no decoder
    std::optional<TokenId> begin_of_sequence;
    std::optional<TokenId> end_of_sequence;
};

/// What `encode` does beside the text itself.
struct EncodeOptions {
    bool adds_special = true;   // what the tokenizer puts before and after a text
    bool finds_special = true;  // special tokens that are written in the text; else they are text
};

/// From text to token ids and back. A value: once made it does not change, and any number of threads may use it.
///
/// Example  auto const tokenizer = load_tokenizer(path); auto const ids = tokenizer->encode("Hello");
class Tokenizer {
public:
    /// Errors  capacity_exceeded as Pattern::find_all, and with the step that makes added tokens too long
    [[nodiscard]] static Result<Tokenizer> make(TokenizerParts parts) {
        Tokenizer made(std::move(parts));
        std::size_t size = 0;
        for (auto const& token : made.parts_.added) size += token.text.size();
        auto left = max_grown_size(size);
        for (auto const& token : made.parts_.added) {
            made.added_ids_.emplace(token.id, &token - made.parts_.added.data());
            auto text = to_code_points(token.text);
            if (token.is_normalized) {
                TextPiece piece{std::move(text), 0};
                if (auto const done = normalize_text(made.parts_.normalizer, piece, left); !done) return done.error();
                left -= piece.text.size();
                made.normalized_.add(piece.text, token);
            } else {
                made.verbatim_.add(text, token);
            }
        }
        return made;
    }

    /// The ids of a text; what is no UTF-8 in it counts as U+FFFD.
    ///
    /// Errors  capacity_exceeded where a hostile pattern takes too many steps, or a step makes the text too long
    [[nodiscard]] Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options = {}) const {
        std::vector<TokenId> ids;
        if (options.adds_special) ids = parts_.before;
        if (auto const done = append(text, false, options.finds_special, ids); !done) return done.error();
        if (options.adds_special) ids.insert(ids.end(), parts_.after.begin(), parts_.after.end());
        return ids;
    }

    /// The same ids in several parts, in memory of the parts' sizes: the text is cut, soon after each `part_bytes`, where that changes no
    /// token (TextCuts). A part is longer where there is no such place: all of the text with a unigram model that gets it in one piece.
    /// `take(ids, bytes)` gets each part's ids and how many bytes of the text are done; an error of it ends all.
    ///
    /// Errors  as encode, and those of `take`
    template <class Take>
    Result<> encode_in_parts(std::string_view text, Take take, EncodeOptions options = {},
                             std::size_t part_bytes = std::size_t{1} << 18U) const {
        return std::visit(
            [&](auto const& model) -> Result<> {
                detail::TextCuts cuts(parts_.normalizer, parts_.splitter, model, verbatim_, normalized_);
                std::vector<TokenId> ids;
                if (options.adds_special) ids = parts_.before;
                std::size_t at = 0;
                do {
                    auto const rest = text.substr(at);
                    auto size = cuts.next(rest, part_bytes);
                    auto const before = ids.size();
                    auto done = append(rest.substr(0, size), at > 0, options.finds_special, ids);
                    if (!done && size < rest.size()) {
                        // What is too much for a part need not be for more of the text.
                        size = rest.size();
                        ids.resize(before);
                        done = append(rest, at > 0, options.finds_special, ids);
                    }
                    if (!done) return done;
                    at += size;
                    if (options.adds_special && at == text.size())
                        ids.insert(ids.end(), parts_.after.begin(), parts_.after.end());
                    if (auto const taken = take(std::span<TokenId const>(ids), at); !taken) return taken;
                    ids.clear();
                } while (at < text.size());
                return {};
            },
            parts_.model);
    }

    /// The text of ids, special tokens left out where asked.
    ///
    /// Errors  invalid_argument for an id that no token has; capacity_exceeded where a decoder makes the text too long
    [[nodiscard]] Result<std::string> decode(std::span<TokenId const> ids, bool skips_special = true) const {
        auto bytes = decode_bytes(ids, skips_special, false);
        if (!bytes) return bytes.error();
        return to_valid_utf8(*bytes);
    }

    /// Used by StreamingDecoder: as decode, but bytes that are no UTF-8 may stay.
    [[nodiscard]] Result<std::string> decode_bytes(std::span<TokenId const> ids, bool skips_special,
                                                   bool keeps_broken) const {
        std::vector<std::string> tokens;
        for (auto const id : ids) {
            auto const text = token(id);
            if (!text) return Error{ErrorCode::invalid_argument}.because("no token has this id").got(id);
            if (!(skips_special && is_special(id))) tokens.emplace_back(*text);
        }
        if (auto const done = decode_tokens(parts_.decoder, tokens, keeps_broken); !done) return done.error();
        std::string out;
        for (auto const& text : tokens) {
            if (parts_.joins_with_spaces && &text != tokens.data()) out += ' ';
            out += text;
        }
        return out;
    }

    /// The token of an id as the vocabulary has it; nothing where no token has the id.
    [[nodiscard]] std::optional<std::string_view> token(TokenId id) const {
        if (auto const found = added_ids_.find(id); found != added_ids_.end()) {
            return parts_.added[static_cast<std::size_t>(found->second)].text;
        }
        return vocabulary().text(id);
    }
    /// The id of a token as the vocabulary has it.
    [[nodiscard]] std::optional<TokenId> id_of(std::string_view text) const {
        for (auto const& added : parts_.added) {
            if (added.text == text) return added.id;
        }
        return vocabulary().find(text);
    }
    /// Whether decoding may leave it out.
    [[nodiscard]] bool is_special(TokenId id) const {
        auto const found = added_ids_.find(id);
        return found != added_ids_.end() && parts_.added[static_cast<std::size_t>(found->second)].is_special;
    }
    /// One more than the largest id.
    [[nodiscard]] std::size_t size() const {
        auto size = vocabulary().size();
        for (auto const& added : parts_.added) size = std::max(size, static_cast<std::size_t>(added.id) + 1);
        return size;
    }
    [[nodiscard]] std::optional<TokenId> begin_of_sequence() const { return parts_.begin_of_sequence; }
    [[nodiscard]] std::optional<TokenId> end_of_sequence() const { return parts_.end_of_sequence; }
    [[nodiscard]] TokenizerParts const& parts() const { return parts_; }

private:
    explicit Tokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}

    [[nodiscard]] Vocabulary const& vocabulary() const {
        return std::visit([](auto const& model) -> Vocabulary const& { return model.vocabulary; }, parts_.model);
    }

    /// Appends the ids of a text, or of what `continues` one after a cut.
    Result<> append(std::string_view text, bool continues, bool finds_special, std::vector<TokenId>& ids) const {
        auto const codes = to_code_points(text);
        for (auto const& part : verbatim_.split(codes, finds_special)) {
            if (part.id) {
                ids.push_back(*part.id);
                continue;
            }
            bool const is_front = part.first == 0;
            auto const done = encode_part({codes.substr(part.first, part.end - part.first),
                                           is_front && !continues ? std::size_t{1} : std::size_t{0}},
                                          is_front && continues, finds_special, ids);
            if (!done) return done.error();
        }
        return {};
    }
    Result<> encode_part(TextPiece part, bool continues, bool finds_special, std::vector<TokenId>& ids) const {
        auto const limit = max_grown_size(part.text.size());
        if (auto const done = normalize_text(parts_.normalizer, part, limit, continues); !done) return done.error();
        for (auto const& inner : normalized_.split(part.text, finds_special)) {
            if (inner.id) {
                ids.push_back(*inner.id);
                continue;
            }
            std::vector<TextPiece> pieces;
            pieces.push_back({part.text.substr(inner.first, inner.end - inner.first),
                              part.from_first - std::min(part.from_first, inner.first)});
            bool const is_middle = continues && inner.first == 0;
            if (auto const done = split_pieces(parts_.splitter, pieces, limit, is_middle); !done) return done.error();
            std::visit(
                [&](auto const& model) {
                    for (auto const& piece : pieces) model.append(ids, to_utf8(piece.text));
                },
                parts_.model);
        }
        return {};
    }

    TokenizerParts parts_;
    std::unordered_map<TokenId, std::ptrdiff_t> added_ids_;
    AddedTokenFinder verbatim_;
    AddedTokenFinder normalized_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
