// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/utf8.hpp>
#include <shardwise/tokenizer/vocabulary.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// WordPiece: from the left, each time the longest token; a word that cannot be made of tokens is unknown as a whole.
///
/// Source  Devlin et al. 2018, arXiv:1810.04805
class WordPieceModel {
public:
    Vocabulary vocabulary;
    TokenId unknown = 0;
    std::string continuing_prefix = "##";
    /// Units  code points; a longer word is unknown
    std::size_t longest_word = 100;

    void append(std::vector<TokenId>& ids, std::string_view piece) const {
        auto const before = ids.size();
        if (to_code_points(piece).size() > longest_word) return ids.push_back(unknown);
        std::string candidate;
        for (std::size_t first = 0; first < piece.size();) {
            auto const prefix = first > 0 ? std::string_view(continuing_prefix) : std::string_view{};
            auto end = piece.size();
            if (vocabulary.longest() < piece.size()) end = std::min(end, first + vocabulary.longest());
            for (; end > first; --end) {
                if (end < piece.size() && (static_cast<unsigned char>(piece[end]) & 0xC0U) == 0x80U) continue;
                candidate.assign(prefix).append(piece.substr(first, end - first));
                if (auto const id = vocabulary.find(candidate)) {
                    ids.push_back(*id);
                    break;
                }
            }
            if (end == first) {
                ids.resize(before);
                return ids.push_back(unknown);
            }
            first = end;
        }
    }
};

/// One token for each piece.
class WordLevelModel {
public:
    Vocabulary vocabulary;
    TokenId unknown = -1;

    void append(std::vector<TokenId>& ids, std::string_view piece) const {
        auto const id = vocabulary.find(piece);
        if (id || unknown >= 0) ids.push_back(id.value_or(unknown));
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
