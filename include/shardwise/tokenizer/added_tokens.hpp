// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/unicode.hpp>
#include <shardwise/tokenizer/vocabulary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A longer text is no added token; it bounds the time that finding them takes.
///
/// Units  bytes
inline constexpr std::size_t max_added_token_size = 1024;

/// A token that is found in the text as it is written, before the model sees the rest.
struct AddedToken {
    std::string text;
    TokenId id = 0;
    bool is_special = false;     // left out when ids are decoded
    bool is_normalized = false;  // found in the normalised text
    bool is_single_word = false;
    bool strips_left = false;  // takes the white space before it
    bool strips_right = false;
};

/// Finds added tokens: at each place the longest.
class AddedTokenFinder {
public:
    /// A part of the text; those without an id are for the model.
    struct Part {
        std::size_t first = 0;
        std::size_t end = 0;
        std::optional<TokenId> id;
    };

    /// `text` is what the token is in the text that will be searched. Of several with one text, the first counts.
    void add(std::u32string_view text, AddedToken const& token) {
        if (text.empty()) return;
        first_.insert(text.front());
        last_.insert(text.back());
        for (std::size_t i = 1; i < text.size(); ++i) pairs_.insert(key(text[i - 1], text[i]));
        std::size_t node = 0;
        for (auto const code : text) node = children_.try_emplace(key(node, code), ++nodes_).first->second;
        ends_.try_emplace(node, Entry{text.size(), token.id, token.is_special, token.is_single_word, token.strips_left,
                                      token.strips_right});
    }

    /// The parts of a text in their order; none is empty. Special tokens are text like any other unless `finds_special`.
    [[nodiscard]] std::vector<Part> split(std::u32string_view text, bool finds_special) const {
        std::vector<Part> parts;
        std::size_t done = 0;
        for (std::size_t at = 0; at < text.size();) {
            auto const* const entry = longest_at(text, at);
            if (!entry) {
                ++at;
                continue;
            }
            auto first = at;
            auto end = at + entry->size;
            at = end;
            if (entry->is_special && !finds_special) continue;
            if (entry->is_single_word) {
                bool const joins_left = first > 0 && is_word_character(text[first - 1]);
                bool const joins_right = end < text.size() && is_word_character(text[end]);
                if (joins_left || joins_right) continue;
            }
            while (entry->strips_left && first > done && is_white_space(text[first - 1])) --first;
            while (entry->strips_right && end < text.size() && is_white_space(text[end])) ++end;
            if (done < first) parts.push_back({done, first, std::nullopt});
            parts.push_back({first, end, entry->id});
            done = end;
            at = std::max(at, end);
        }
        if (done != text.size()) parts.push_back({done, text.size(), std::nullopt});
        return parts;
    }

    /// Whether a token may have one of two neighbours, or lie at their border. Where none may, and the first is no white space, what is
    /// found on one side of the border does not depend on the other.
    [[nodiscard]] bool touches(char32_t before, char32_t after) const {
        return last_.contains(before) || first_.contains(after) || pairs_.contains(key(before, after));
    }

private:
    struct Entry {
        std::size_t size;
        TokenId id;
        bool is_special;
        bool is_single_word;
        bool strips_left;
        bool strips_right;
    };

    [[nodiscard]] static std::uint64_t key(std::size_t node, char32_t code) {
        return std::uint64_t{node} << 21U | code;
    }
    [[nodiscard]] Entry const* longest_at(std::u32string_view text, std::size_t at) const {
        Entry const* longest = nullptr;
        for (std::size_t node = 0; at < text.size(); ++at) {
            auto const child = children_.find(key(node, text[at]));
            if (child == children_.end()) break;
            node = child->second;
            if (auto const end = ends_.find(node); end != ends_.end()) longest = &end->second;
        }
        return longest;
    }

    // A tree of code points; its root is node 0.
    std::unordered_map<std::uint64_t, std::size_t> children_;
    std::unordered_map<std::size_t, Entry> ends_;
    std::size_t nodes_ = 0;
    // The code points that tokens begin and end with, and those that follow each other in one.
    std::unordered_set<char32_t> first_;
    std::unordered_set<char32_t> last_;
    std::unordered_set<std::uint64_t> pairs_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
