// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/byte_tokens.hpp>
#include <shardwise/tokenizer/vocabulary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// SentencePiece's byte-pair encoding: of all neighbours that together are a token, the pair of the highest score is merged
/// first, the leftmost of equals; what is no token falls back to bytes.
///
/// Source  Kudo and Richardson 2018, arXiv:1808.06226
class ScoredModel {
public:
    Vocabulary vocabulary;
    /// One for each id.
    std::vector<float> scores;
    std::optional<TokenId> unknown;

    void append(std::vector<TokenId>& ids, std::string_view piece) const {
        std::vector<Symbol> symbols;
        for (std::size_t at = 0; at < piece.size();) {
            auto const length = std::max<std::size_t>(1, utf8_length(piece.substr(at)));
            auto const here = static_cast<std::int32_t>(symbols.size());
            symbols.push_back({at, length, here - 1, at + length < piece.size() ? here + 1 : -1});
            at += length;
        }
        std::priority_queue<Candidate> queue;
        auto const offer = [&](std::int32_t left) {
            if (left < 0) return;
            auto const& symbol = symbols[static_cast<std::size_t>(left)];
            if (symbol.next < 0) return;
            auto const size = symbol.size + symbols[static_cast<std::size_t>(symbol.next)].size;
            auto const id = vocabulary.find(piece.substr(symbol.first, size));
            if (!id) return;
            auto const index = static_cast<std::size_t>(*id);
            queue.push({index < scores.size() ? scores[index] : 0.0F, left, size});
        };
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<std::int32_t>(i));
        while (!queue.empty()) {
            auto const best = queue.top();
            queue.pop();
            auto& left = symbols[static_cast<std::size_t>(best.at)];
            if (left.size == 0 || left.next < 0) continue;
            auto& right = symbols[static_cast<std::size_t>(left.next)];
            if (left.size + right.size != best.size) continue;
            left.size = best.size;
            right.size = 0;
            left.next = right.next;
            if (right.next >= 0) symbols[static_cast<std::size_t>(right.next)].previous = best.at;
            offer(left.previous);
            offer(best.at);
        }
        for (auto const& symbol : symbols) {
            if (symbol.size == 0) continue;
            auto const text = piece.substr(symbol.first, symbol.size);
            if (auto const id = vocabulary.find(text)) {
                ids.push_back(*id);
            } else if (!append_byte_tokens(ids, text, vocabulary) && unknown) {
                ids.push_back(*unknown);
            }
        }
    }

private:
    struct Symbol {
        std::size_t first;
        std::size_t size;
        std::int32_t previous;
        std::int32_t next;
    };
    struct Candidate {
        float score;
        std::int32_t at;
        std::size_t size;

        friend bool operator<(Candidate const& a, Candidate const& b) {
            return a.score != b.score ? a.score < b.score : a.at > b.at;
        }
    };
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
