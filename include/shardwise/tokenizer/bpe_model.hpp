// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/tokenizer/byte_tokens.hpp>
#include <shardwise/tokenizer/vocabulary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Byte-pair encoding: the pair of neighbours whose merge was learnt first is merged first, the leftmost of equals.
///
/// Source  Sennrich et al. 2016, arXiv:1508.07909
class BpeModel {
public:
    Vocabulary vocabulary;
    std::optional<TokenId> unknown;
    bool fuses_unknown = false;
    bool has_byte_fallback = false;
    /// A piece that is a token is taken whole, whether or not merges lead to it.
    bool ignores_merges = false;
    std::string continuing_prefix;
    std::string end_suffix;

    /// Notes the next merge.
    ///
    /// Errors  invalid_field where a part or the whole is no token
    Result<> add_merge(std::string_view left, std::string_view right) {
        auto const a = vocabulary.find(left);
        auto const b = vocabulary.find(right);
        if (!a || !b) {
            return Error{ErrorCode::invalid_field}.at(a ? right : left).because("a merge names it, but it is no token");
        }
        bool const has_prefix = !continuing_prefix.empty() && right.starts_with(continuing_prefix);
        auto const whole = std::string(left) + std::string(has_prefix ? right.substr(continuing_prefix.size()) : right);
        auto const merged = vocabulary.find(whole);
        if (!merged) {
            return Error{ErrorCode::invalid_field}.at(whole).because("a merge makes it, but it is no token");
        }
        merges_.insert_or_assign(pair_key(*a, *b), Merge{static_cast<std::uint32_t>(ranks_++), *merged});
        return {};
    }

    /// Appends the tokens of one piece; code points that are none, where there is no unknown token, are left out.
    void append(std::vector<TokenId>& ids, std::string_view piece) const {
        if (ignores_merges) {
            if (auto const whole = vocabulary.find(piece)) return ids.push_back(*whole);
        }
        auto symbols = split(piece);
        merge_all(symbols);
        for (auto const& symbol : symbols) {
            if (symbol.is_there) ids.push_back(symbol.id);
        }
    }

private:
    struct Merge {
        std::uint32_t rank;
        TokenId id;
    };
    struct Symbol {
        TokenId id;
        std::int32_t previous;
        std::int32_t next;
        bool is_there;
    };
    struct Candidate {
        std::uint32_t rank;
        std::int32_t at;
        TokenId id;

        friend bool operator<(Candidate const& a, Candidate const& b) {
            return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
        }
    };

    [[nodiscard]] static std::uint64_t pair_key(TokenId a, TokenId b) {
        return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32U | static_cast<std::uint32_t>(b);
    }

    [[nodiscard]] std::vector<Symbol> split(std::string_view piece) const {
        std::vector<TokenId> ids;
        ids.reserve(piece.size());
        bool is_after_unknown = false;
        std::string decorated;
        for (std::size_t at = 0; at < piece.size();) {
            auto const length = std::max<std::size_t>(1, utf8_length(piece.substr(at)));
            std::string_view text = piece.substr(at, length);
            bool const is_last = at + length == piece.size();
            if ((at > 0 && !continuing_prefix.empty()) || (is_last && !end_suffix.empty())) {
                decorated =
                    (at > 0 ? continuing_prefix : std::string{}) + std::string(text) + (is_last ? end_suffix : "");
                text = decorated;
            }
            at += length;
            if (auto const id = vocabulary.find(text)) {
                ids.push_back(*id);
                is_after_unknown = false;
            } else if (!(has_byte_fallback && append_byte_tokens(ids, text, vocabulary)) && unknown) {
                if (!(fuses_unknown && is_after_unknown)) ids.push_back(*unknown);
                is_after_unknown = true;
            }
        }
        std::vector<Symbol> symbols;
        symbols.reserve(ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) {
            auto const here = static_cast<std::int32_t>(i);
            symbols.push_back({ids[i], here - 1, i + 1 < ids.size() ? here + 1 : -1, true});
        }
        return symbols;
    }

    void merge_all(std::vector<Symbol>& symbols) const {
        std::priority_queue<Candidate> queue;
        auto const offer = [&](std::int32_t left) {
            if (left < 0) return;
            auto const& symbol = symbols[static_cast<std::size_t>(left)];
            if (symbol.next < 0) return;
            auto const found = merges_.find(pair_key(symbol.id, symbols[static_cast<std::size_t>(symbol.next)].id));
            if (found != merges_.end()) queue.push({found->second.rank, left, found->second.id});
        };
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<std::int32_t>(i));
        while (!queue.empty()) {
            auto const best = queue.top();
            queue.pop();
            auto& left = symbols[static_cast<std::size_t>(best.at)];
            if (!left.is_there || left.next < 0) continue;
            auto& right = symbols[static_cast<std::size_t>(left.next)];
            auto const found = merges_.find(pair_key(left.id, right.id));
            if (found == merges_.end() || found->second.id != best.id) continue;
            left.id = best.id;
            right.is_there = false;
            left.next = right.next;
            if (right.next >= 0) symbols[static_cast<std::size_t>(right.next)].previous = best.at;
            offer(left.previous);
            offer(best.at);
        }
    }

    std::unordered_map<std::uint64_t, Merge> merges_;
    std::size_t ranks_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
