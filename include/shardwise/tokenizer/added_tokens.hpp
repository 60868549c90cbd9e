// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/unicode.hpp>
#include <shardwise/tokenizer/vocabulary.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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

    /// `text` is what the token is in the text that will be searched.
    void add(std::u32string text, AddedToken const& token) {
        if (text.empty()) return;
        auto& found = by_first_[text[0]];
        Entry entry{std::move(text),      token.id,          token.is_special,
                    token.is_single_word, token.strips_left, token.strips_right};
        auto const longer = [](Entry const& a, Entry const& b) { return a.text.size() > b.text.size(); };
        found.insert(std::upper_bound(found.begin(), found.end(), entry, longer), std::move(entry));
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
            auto end = at + entry->text.size();
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

private:
    struct Entry {
        std::u32string text;
        TokenId id;
        bool is_special;
        bool is_single_word;
        bool strips_left;
        bool strips_right;
    };

    [[nodiscard]] Entry const* longest_at(std::u32string_view text, std::size_t at) const {
        auto const found = by_first_.find(text[at]);
        if (found == by_first_.end()) return nullptr;
        for (auto const& entry : found->second) {
            if (text.substr(at, entry.text.size()) == entry.text) return &entry;
        }
        return nullptr;
    }

    std::unordered_map<char32_t, std::vector<Entry>> by_first_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
