// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/gguf_metadata.hpp>
#include <shardwise/tokenizer/files/gguf_pre_tokenizer.hpp>
#include <shardwise/tokenizer/files/json_steps.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Reads the vocabulary that a GGUF file's metadata holds.
class GgufTokenizerReader {
public:
    explicit GgufTokenizerReader(GgufMetadata const& metadata) : metadata_(metadata) {}

    Result<TokenizerParts> read() {
        auto const model = metadata_.text("tokenizer.ggml.model");
        if (model.empty()) {
            return Error{ErrorCode::missing_field}
                .at("tokenizer.ggml.model")
                .because("the file has no tokenizer")
                .fix("give token ids, or use a checkpoint with a tokenizer");
        }
        types_ = integers("tokenizer.ggml.token_type");
        if (model == "bert") {
            if (auto const done = read_word_piece(); !done) return done.error();
            return std::move(parts_);
        }
        if (model == "t5") {
            if (auto const done = read_unigram(); !done) return done.error();
            if (auto const done = read_special(false); !done) return done.error();
            return std::move(parts_);
        }
        if (model != "gpt2" && model != "llama") {
            return Error{ErrorCode::unsupported}
                .at("tokenizer.ggml.model")
                .because("the tokenizer " + model + " is not supported")
                .fix("known: bert, gpt2, llama, t5; give token ids, or use a checkpoint with a tokenizer.json");
        }
        bool const is_scored = model == "llama";
        if (auto const done = is_scored ? read_scored() : read_byte_level(); !done) return done.error();
        if (auto const done = read_special(is_scored); !done) return done.error();
        return std::move(parts_);
    }

private:
    // Source  llama.cpp, llama.h, llama_token_type
    static constexpr std::int64_t type_normal = 1;
    static constexpr std::int64_t type_unknown = 2;
    static constexpr std::int64_t type_control = 3;
    static constexpr std::int64_t type_user_defined = 4;
    // Longer texts are no tokens; it bounds the memory of a file that lies.
    static constexpr std::uint64_t max_token_size = std::uint64_t{1} << 16U;
    static constexpr std::uint64_t max_merges = std::uint64_t{1} << 24U;
    static constexpr std::size_t window = std::size_t{1} << 17U;

    static Error invalid(std::string_view key, std::string_view reason) {
        return Error{ErrorCode::invalid_field}.at(key).because(reason);
    }

    /// Calls `take` with each text of an array, in order, until it returns an error.
    template <class Take>
    Result<> each_text(std::string_view key, std::uint64_t limit, Take take) const {
        auto const array = metadata_.find(key);
        if (!array) return Error{ErrorCode::missing_field}.at(key).because("is missing");
        if (array->type != GgufValueType::array || array->element != GgufValueType::text) {
            return invalid(key, "must be a list of texts");
        }
        if (array->count > limit) {
            return Error{ErrorCode::capacity_exceeded}
                .at(key)
                .because("has more entries than are read")
                .at_most(static_cast<std::int64_t>(limit));
        }
        GgufCursor cursor(metadata_.source(), array->offset, window);
        for (std::uint64_t i = 0; i < array->count; ++i) {
            std::uint64_t size = 0;
            std::string_view text;
            bool const is_read = cursor.read(size) && size <= max_token_size && cursor.text(size, text);
            if (!is_read && cursor.has_failed()) {
                return Error{ErrorCode::file_unreadable}.at(key).because("the system does not give its bytes");
            }
            if (!is_read) return Error{ErrorCode::malformed_file}.at(key).because("has a text that is too long");
            if (auto const taken = take(text); !taken) return taken.error();
        }
        return {};
    }
    [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key) const {
        auto const array = metadata_.find(key);
        if (!array) return {};
        return metadata_.integers(*array, static_cast<std::size_t>(Vocabulary::max_tokens));
    }

    /// Texts that occur twice keep their first id.
    Result<> read_tokens(Vocabulary& vocabulary) {
        TokenId next = 0;
        return each_text("tokenizer.ggml.tokens", static_cast<std::uint64_t>(Vocabulary::max_tokens),
                         [&](std::string_view text) {
                             note_added(text, next);
                             return vocabulary.add(text, next++);
                         });
    }
    [[nodiscard]] std::int64_t type_of(TokenId id) const {
        auto const index = static_cast<std::size_t>(id);
        return index < types_.size() ? types_[index] : 1;
    }
    [[nodiscard]] bool is_added(TokenId id) const {
        auto const type = type_of(id);
        return type == type_unknown || type == type_control || type == type_user_defined;
    }
    void note_added(std::string_view text, TokenId id) {
        if (!is_added(id)) return;
        AddedToken token;
        token.text = text;
        token.id = id;
        token.is_special = type_of(id) != type_user_defined;
        parts_.added.push_back(std::move(token));
    }

    Result<> read_byte_level() {
        auto const pre = gguf_pre_tokenizer(metadata_.text("tokenizer.ggml.pre"));
        if (!pre) return pre.error();
        BpeModel model;
        model.ignores_merges = pre->ignores_merges;
        adds_begin_ = pre->adds_begin;
        if (auto const done = read_tokens(model.vocabulary); !done) return done.error();
        auto const merges = each_text("tokenizer.ggml.merges", max_merges, [&](std::string_view text) -> Result<> {
            // The left part is never empty, and may be a space.
            auto const space = text.find(' ', 1);
            if (space == text.npos) return invalid("tokenizer.ggml.merges", "has a merge without a space");
            return model.add_merge(text.substr(0, space), text.substr(space + 1));
        });
        if (!merges) return merges.error();
        parts_.model = std::move(model);
        parts_.splitter = splitter_of(*pre);
        parts_.decoder.push_back(DecodeByteLevel{});
        return {};
    }

    Result<std::vector<float>> read_scores(std::size_t tokens) const {
        auto const found = metadata_.find("tokenizer.ggml.scores");
        if (!found || found->type != GgufValueType::array || found->element != GgufValueType::f32 ||
            found->count != tokens) {
            return invalid("tokenizer.ggml.scores", "must be a list of f32, one for each token");
        }
        std::vector<float> scores(tokens);
        GgufCursor cursor(metadata_.source(), found->offset, window);
        for (auto& score : scores) {
            if (!cursor.read(score))
                return Error{ErrorCode::malformed_file}.at("tokenizer.ggml.scores").because("ends early");
            if (score != score) return invalid("tokenizer.ggml.scores", "has a NaN");
        }
        return scores;
    }

    /// SentencePiece's unigram model, as the tokenizer.json of t5 and xlm-roberta has it.
    ///
    /// Source  llama.cpp, conversion/t5.py, for the keys; llama-vocab.cpp (llm_tokenizer_ugm) for which scores count
    Result<> read_unigram() {
        UnigramModel model;
        if (auto const done = read_tokens(model.vocabulary); !done) return done.error();
        auto const scores = read_scores(model.vocabulary.size());
        if (!scores) return scores.error();
        model.scores.assign(scores->begin(), scores->end());
        if (auto const id = known_id("tokenizer.ggml.unknown_token_id", 2)) model.unknown = id;
        // What fills the vocabulary up is less likely than any text.
        model.finish([&](std::size_t id) { return type_of(static_cast<TokenId>(id)) == type_normal; });
        if (auto const table = metadata_.find("tokenizer.ggml.precompiled_charsmap")) {
            std::string bytes;
            for (auto const byte : integers("tokenizer.ggml.precompiled_charsmap")) bytes += static_cast<char>(byte);
            auto map = PrecompiledMap::read(bytes);
            if (!map || bytes.size() != table->count)
                return invalid("tokenizer.ggml.precompiled_charsmap", "holds no table of characters");
            parts_.normalizer.push_back(*std::move(map));
        }
        if (metadata_.integer("tokenizer.ggml.add_space_prefix").value_or(1) == 0) {
            return Error{ErrorCode::unsupported}
                .at("tokenizer.ggml.add_space_prefix")
                .because("is false, and words without a space before them are not cut yet");
        }
        constexpr char32_t mark = U'\u2581';
        if (metadata_.integer("tokenizer.ggml.remove_extra_whitespaces").value_or(1) != 0)
            parts_.splitter.push_back(SplitAtMatches{known_pattern(R"(\s)"), SplitBehavior::removed, false});
        parts_.splitter.push_back(ReplaceCharacter{U' ', mark});
        parts_.splitter.push_back(PrefixPieces{mark, false});
        parts_.splitter.push_back(
            SplitAtMatches{Pattern::literal(std::u32string(1, mark)), SplitBehavior::merged_with_next, false});
        parts_.decoder.push_back(DecodeWordMarks{"\xE2\x96\x81", true});
        parts_.model = std::move(model);
        return {};
    }

    Result<> read_scored() {
        ScoredModel model;
        if (auto const done = read_tokens(model.vocabulary); !done) return done.error();
        auto scores = read_scores(model.vocabulary.size());
        if (!scores) return scores.error();
        model.scores = *std::move(scores);
        if (auto const id = known_id("tokenizer.ggml.unknown_token_id", 0)) model.unknown = id;
        bool const adds_space = metadata_.integer("tokenizer.ggml.add_space_prefix").value_or(1) != 0;
        parts_.model = std::move(model);
        if (adds_space) parts_.normalizer.push_back(PrependText{U" "});
        parts_.normalizer.push_back(ReplaceMatches{Pattern::literal(U" "), U"\u2581"});
        parts_.decoder.push_back(ReplaceInTokens{"\xE2\x96\x81", " "});
        parts_.decoder.push_back(DecodeByteTokens{});
        parts_.decoder.push_back(FuseTokens{});
        if (adds_space) parts_.decoder.push_back(StripTokens{" ", 1, 0});
        adds_begin_ = true;
        return {};
    }

    /// BERT's WordPiece. A file marks the beginnings of words (U+2581) where BERT marks what continues them (##).
    ///
    /// Source  llama.cpp, conversion/bert.py, for the marks; llama-vocab.cpp for the keys and what holds without them
    Result<> read_word_piece() {
        constexpr std::string_view mark = "\xE2\x96\x81";
        WordPieceModel model;
        TokenId next = 0;
        auto const tokens = each_text("tokenizer.ggml.tokens", static_cast<std::uint64_t>(Vocabulary::max_tokens),
                                      [&](std::string_view text) {
                                          if (is_added(next)) {
                                              note_added(text, next);
                                              return model.vocabulary.add(text, next++);
                                          }
                                          bool const begins = text.starts_with(mark) && text.size() > mark.size();
                                          auto const whole = begins
                                                                 ? std::string(text.substr(mark.size()))
                                                                 : model.continuing_prefix + std::string(text);
                                          return model.vocabulary.add(whole, next++);
                                      });
        if (!tokens) return tokens.error();
        auto const size = model.vocabulary.size();
        auto const token_of = [&](std::string_view key, std::optional<TokenId> otherwise) -> Result<TokenId> {
            auto const id = known_id(key, otherwise);
            if (id && static_cast<std::size_t>(*id) < size) return *id;
            return invalid(key, "is no token");
        };
        auto const unknown = token_of("tokenizer.ggml.unknown_token_id", 100);
        if (!unknown) return unknown.error();
        model.unknown = *unknown;
        auto const flag = [&](std::string_view key, bool otherwise) {
            return metadata_.integer(key).value_or(otherwise ? 1 : 0) != 0;
        };
        NormalizeForBert normalizer;
        normalizer.lowers = flag("tokenizer.ggml.normalizer.lowercase", true);
        normalizer.strips_accents = flag("tokenizer.ggml.normalizer.strip_accents", normalizer.lowers);
        parts_.normalizer.push_back(normalizer);
        parts_.splitter = bert_splitter();
        parts_.decoder.push_back(DecodeWordPieces{});
        parts_.model = std::move(model);
        // Files of converters that knew no beginning of a sequence name the token [CLS] only.
        if (flag("tokenizer.ggml.add_bos_token", true)) {
            auto const begin = token_of("tokenizer.ggml.bos_token_id", known_id("tokenizer.ggml.cls_token_id", 101));
            if (!begin) return begin.error();
            parts_.before = {*begin};
        }
        bool const adds_separator = flag("tokenizer.ggml.add_sep_token", true);
        if (flag("tokenizer.ggml.add_eos_token", adds_separator)) {
            auto const end = token_of("tokenizer.ggml.seperator_token_id", known_id("tokenizer.ggml.eos_token_id", 102));
            if (!end) return end.error();
            parts_.after = {*end};
        }
        return {};
    }

    [[nodiscard]] std::optional<TokenId> known_id(std::string_view key, std::optional<TokenId> otherwise) const {
        auto const id = metadata_.integer(key);
        if (!id) return otherwise;
        if (*id < 0 || *id >= Vocabulary::max_tokens) return std::nullopt;
        return static_cast<TokenId>(*id);
    }

    Result<> read_special(bool is_scored) {
        // Source  llama.cpp, llama-vocab.cpp: SentencePiece has <s> 1 and </s> 2
        auto const default_begin = is_scored ? std::optional<TokenId>{1} : std::nullopt;
        auto const default_end = is_scored ? std::optional<TokenId>{2} : std::nullopt;
        parts_.begin_of_sequence = known_id("tokenizer.ggml.bos_token_id", default_begin);
        parts_.end_of_sequence = known_id("tokenizer.ggml.eos_token_id", default_end);
        auto const size = std::visit([](auto const& model) { return model.vocabulary.size(); }, parts_.model);
        auto const is_token = [size](std::optional<TokenId> id) { return id && static_cast<std::size_t>(*id) < size; };
        bool const adds_begin = metadata_.integer("tokenizer.ggml.add_bos_token").value_or(adds_begin_ ? 1 : 0) != 0;
        bool const adds_end = metadata_.integer("tokenizer.ggml.add_eos_token").value_or(0) != 0;
        if (adds_begin) {
            if (!is_token(parts_.begin_of_sequence)) return invalid("tokenizer.ggml.bos_token_id", "is no token");
            parts_.before = {*parts_.begin_of_sequence};
        }
        if (adds_end) {
            if (!is_token(parts_.end_of_sequence)) return invalid("tokenizer.ggml.eos_token_id", "is no token");
            parts_.after = {*parts_.end_of_sequence};
        }
        strip_after_phi3();
        return {};
    }
    /// Phi-3's tokens take the white space after them, which GGUF does not say.
    ///
    /// Source  microsoft/Phi-3-mini-4k-instruct, tokenizer.json; llama.cpp does the same by name
    void strip_after_phi3() {
        std::string name = metadata_.text("general.name");
        for (auto& letter : name) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
        if (name.find("phi-3") == name.npos && name.find("phi3") == name.npos) return;
        for (auto& token : parts_.added) {
            token.strips_right = token.text != "<unk>" && token.text != "<s>" && token.text != "<|endoftext|>";
        }
    }

    GgufMetadata const& metadata_;
    std::vector<std::int64_t> types_;
    TokenizerParts parts_;
    bool adds_begin_ = false;
};

}  // namespace detail

/// The tokenizer that a GGUF file's metadata holds: byte-level BPE (`gpt2`), SentencePiece scores (`llama`), its unigram
/// model (`t5`) or WordPiece (`bert`). What a file does not say is as in BERT's own: words of more than 100 code points are unknown.
///
/// Errors  missing_field, invalid_field, unsupported, malformed_file, capacity_exceeded with the key; file_unreadable
/// Source  ggml docs/gguf.md, tokenizer.ggml
[[nodiscard]] inline Result<Tokenizer> read_gguf_tokenizer(GgufMetadata const& metadata, std::string_view path) {
    auto parts = detail::GgufTokenizerReader(metadata).read();
    if (!parts) return Error{parts.error()}.in(path);
    auto made = Tokenizer::make(std::move(*parts));
    if (!made) return Error{made.error()}.in(path);
    return made;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
