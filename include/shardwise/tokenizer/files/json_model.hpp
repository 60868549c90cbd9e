// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/files/json_post_processor.hpp>
#include <shardwise/tokenizer/tokenizer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// {"token": id}
inline void read_vocabulary(JsonPart const& model, Vocabulary& out) {
    auto const vocabulary = model.find("vocab");
    if (!vocabulary || !vocabulary->value().is_object()) {
        return model.refuse(ErrorCode::invalid_field, "vocab", "must be an object");
    }
    for (auto const member : vocabulary->value()) {
        auto const id = checked_id(*vocabulary, member.key(), member.integer().value_or(-1));
        if (auto const added = out.add(member.key(), id); !added) return model.errors().note(added.error());
    }
}

inline void read_merges(JsonPart const& model, BpeModel& out) {
    auto const merges = model.find("merges");
    if (!merges || !merges->value().is_array())
        return model.refuse(ErrorCode::invalid_field, "merges", "must be a list");
    for (auto const merge : merges->value()) {
        std::string_view left;
        std::string_view right;
        if (merge.is_string()) {
            auto const both = merge.string().value_or("");
            auto const space = both.find(' ');
            if (space == both.npos) return merges->refuse(ErrorCode::invalid_field, {}, "has a merge without a space");
            left = both.substr(0, space);
            right = both.substr(space + 1);
        } else {
            std::size_t count = 0;
            for (auto const part : merge) {
                if (count < 2) (count == 0 ? left : right) = part.string().value_or("");
                ++count;
            }
            if (!merge.is_array() || count != 2) {
                return merges->refuse(ErrorCode::invalid_field, {}, "has a merge that is no pair");
            }
        }
        if (auto const added = out.add_merge(left, right); !added) return model.errors().note(added.error());
    }
}

[[nodiscard]] inline std::optional<TokenId> read_unknown(JsonPart const& model, Vocabulary const& vocabulary) {
    auto const name = model.text("unk_token", "");
    if (name.empty()) return std::nullopt;
    return vocabulary.find(name);
}

/// What stands before or after parts of words; it is put to each of them, so that a long one would multiply.
[[nodiscard]] inline std::string_view read_affix(JsonPart const& model, std::string_view key, std::string_view otherwise) {
    constexpr std::size_t most = 256;
    auto const affix = model.text(key, otherwise);
    if (affix.size() <= most) return affix;
    model.refuse(ErrorCode::capacity_exceeded, key, "has more than " + std::to_string(most) + " bytes");
    return {};
}

[[nodiscard]] inline BpeModel read_bpe(JsonPart const& model) {
    BpeModel out;
    read_vocabulary(model, out.vocabulary);
    if (auto const dropout = model.find("dropout"); dropout && dropout->value().real().value_or(1.0) != 0.0) {
        model.refuse(ErrorCode::unsupported, "dropout", "makes tokens random");
    }
    out.unknown = read_unknown(model, out.vocabulary);
    out.continuing_prefix = read_affix(model, "continuing_subword_prefix", "");
    out.end_suffix = read_affix(model, "end_of_word_suffix", "");
    out.fuses_unknown = model.flag("fuse_unk", false);
    out.has_byte_fallback = model.flag("byte_fallback", false);
    out.ignores_merges = model.flag("ignore_merges", false);
    read_merges(model, out);
    return out;
}

[[nodiscard]] inline WordPieceModel read_word_piece(JsonPart const& model) {
    WordPieceModel out;
    read_vocabulary(model, out.vocabulary);
    auto const name = model.text("unk_token", "[UNK]");
    auto const unknown = out.vocabulary.find(name);
    if (!unknown) model.refuse(ErrorCode::invalid_field, "unk_token", "is no token");
    out.unknown = unknown.value_or(0);
    out.continuing_prefix = read_affix(model, "continuing_subword_prefix", "##");
    auto const longest = model.integer("max_input_chars_per_word", 100);
    if (longest < 0) model.refuse(ErrorCode::invalid_field, "max_input_chars_per_word", "must not be negative");
    out.longest_word = static_cast<std::size_t>(longest);
    return out;
}

[[nodiscard]] inline WordLevelModel read_word_level(JsonPart const& model) {
    WordLevelModel out;
    read_vocabulary(model, out.vocabulary);
    out.unknown = read_unknown(model, out.vocabulary).value_or(-1);
    return out;
}

/// [["token", score]]
[[nodiscard]] inline UnigramModel read_unigram(JsonPart const& model) {
    UnigramModel out;
    auto const vocabulary = model.find("vocab");
    if (!vocabulary || !vocabulary->value().is_array()) {
        model.refuse(ErrorCode::invalid_field, "vocab", "must be a list");
        return out;
    }
    for (auto const pair : vocabulary->value()) {
        std::optional<std::string_view> token;
        std::optional<double> score;
        for (auto const part : pair) {
            if (part.is_string()) token = part.string();
            if (part.is_number()) score = part.real();
        }
        if (!token || !score) {
            vocabulary->refuse(ErrorCode::invalid_field, {}, "has an entry that is no pair of a token and a score");
            return out;
        }
        auto const added = out.vocabulary.add(*token, static_cast<TokenId>(out.scores.size()));
        if (!added) return model.errors().note(added.error()), out;
        out.scores.push_back(*score);
    }
    if (model.find("unk_id")) {
        out.unknown = checked_id(model, "unk_id", model.integer("unk_id"));
        if (!out.vocabulary.text(*out.unknown)) model.refuse(ErrorCode::invalid_field, "unk_id", "is no token");
    }
    out.has_byte_fallback = model.flag("byte_fallback", false);
    out.finish();
    return out;
}

/// Old files do not name the type.
[[nodiscard]] inline std::string_view model_type(JsonPart const& model) {
    if (model.value().find("type")) return model.type();
    if (model.find("merges")) return "BPE";
    if (auto const vocabulary = model.find("vocab"); vocabulary && vocabulary->value().is_array()) return "Unigram";
    return model.find("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

[[nodiscard]] inline TokenModel read_model(JsonPart const& model) {
    auto const type = model_type(model);
    if (type == "BPE") return read_bpe(model);
    if (type == "WordPiece") return read_word_piece(model);
    if (type == "WordLevel") return read_word_level(model);
    if (type == "Unigram") return read_unigram(model);
    model.refuse_kind(type);
    return WordLevelModel{};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
