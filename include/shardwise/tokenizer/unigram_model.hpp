// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/byte_tokens.hpp>
#include <shardwise/tokenizer/vocabulary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A unigram language model: of all ways to cut a piece into tokens, the likeliest; neighbouring unknown code points
/// are one unknown token.
///
/// Source  Kudo 2018, arXiv:1804.10959
class UnigramModel {
public:
    Vocabulary vocabulary;
    /// Log probabilities, one for each id.
    std::vector<double> scores;
    std::optional<TokenId> unknown;
    bool has_byte_fallback = false;

    /// Used by readers: sets what follows from the scores.
    void finish() {
        finish([](std::size_t) { return true; });
    }
    /// The same, where only tokens that `counts` says have scores of texts.
    template <class Counts>
    void finish(Counts const& counts) {
        std::optional<double> lowest;
        for (std::size_t i = 0; i < scores.size(); ++i) {
            if (counts(i) && (!lowest || scores[i] < *lowest)) lowest = scores[i];
        }
        lowest_ = lowest.value_or(0.0);
    }

    void append(std::vector<TokenId>& ids, std::string_view piece) const {
        std::vector<Place> places(piece.size() + 1);
        places[0].is_reached = true;
        for (std::size_t at = 0; at < piece.size();) {
            auto const length = std::max<std::size_t>(1, utf8_length(piece.substr(at)));
            bool has_single = false;
            auto const longest = std::min(vocabulary.longest(), piece.size() - at);
            for (std::size_t size = 1; size <= longest; ++size) {
                bool const is_within =
                    at + size < piece.size() && (static_cast<unsigned char>(piece[at + size]) & 0xC0U) == 0x80U;
                if (is_within) continue;
                auto const id = vocabulary.find(piece.substr(at, size));
                if (!id) continue;
                reach(places, at, at + size, places[at].score + scores[static_cast<std::size_t>(*id)], *id);
                has_single = has_single || size == length;
            }
            if (!has_single) reach(places, at, at + length, places[at].score + lowest_ - unknown_penalty, no_token);
            at += length;
        }
        take(ids, piece, places);
    }

private:
    // Source  sentencepiece, unigram_model.cc, kUnkPenalty
    static constexpr double unknown_penalty = 10.0;
    static constexpr TokenId no_token = -1;

    struct Place {
        double score = 0.0;
        std::size_t from = 0;
        TokenId id = no_token;
        bool is_reached = false;
    };

    static void reach(std::vector<Place>& places, std::size_t from, std::size_t to, double score, TokenId id) {
        auto& place = places[to];
        if (!place.is_reached || score > place.score) place = {score, from, id, true};
    }

    void take(std::vector<TokenId>& ids, std::string_view piece, std::vector<Place> const& places) const {
        struct Part {
            std::size_t first;
            std::size_t end;
            TokenId id;
        };
        std::vector<Part> parts;
        for (auto end = piece.size(); end > 0; end = places[end].from) {
            auto id = places[end].id;
            if (unknown && id == *unknown) id = no_token;
            if (id == no_token && unknown && !parts.empty() && parts.back().id == no_token) {
                parts.back().first = places[end].from;
            } else {
                parts.push_back({places[end].from, end, id});
            }
        }
        for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
            auto const text = piece.substr(part->first, part->end - part->first);
            auto const id = part->id != no_token ? std::optional{part->id} : vocabulary.find(text);
            if (id) {
                ids.push_back(*id);
            } else if (!(has_byte_fallback && append_byte_tokens(ids, text, vocabulary)) && unknown) {
                ids.push_back(*unknown);
            }
        }
    }

    double lowest_ = 0.0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
