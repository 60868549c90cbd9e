// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/unicode.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A set of code points as a class of a regular expression describes it.
class CharacterSet {
public:
    void add_range(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
    void add(UnicodeCategories categories) { categories_ |= categories; }
    void add_white_space(bool is_negated) { (is_negated ? has_not_space_ : has_space_) = true; }
    void add_word(bool is_negated) { (is_negated ? has_not_word_ : has_word_) = true; }
    void add_all_but(UnicodeCategories categories) { add(~categories); }
    /// One set of unicode_set_table.hpp.
    void add_between(std::string_view borders) { borders_ = borders; }

    /// Adds the other case of ASCII letters, and the two letters beyond ASCII that fold to them.
    void ignore_case() {
        auto const ranges = ranges_;
        for (auto const& [first, last] : ranges) {
            for (auto code = first; code <= last && code < 0x80; ++code) {
                if (code >= 'A' && code <= 'Z') add_range(code + 32, code + 32);
                if (code >= 'a' && code <= 'z') add_range(code - 32, code - 32);
                if (code == 's' || code == 'S') add_range(0x17F, 0x17F);
                if (code == 'k' || code == 'K') add_range(0x212A, 0x212A);
            }
        }
    }
    /// Ends the description.
    void finish(bool is_negated) {
        is_negated_ = is_negated;
        for (char32_t code = 0; code < 0x80; ++code) {
            if (find(code)) ascii_[code / 64] |= std::uint64_t{1} << (code % 64);
        }
    }

    [[nodiscard]] bool contains(char32_t code) const {
        if (code < 0x80) return (ascii_[code / 64] >> (code % 64) & 1U) != 0;
        return find(code);
    }

private:
    struct Range {
        char32_t first;
        char32_t last;
    };

    [[nodiscard]] bool find(char32_t code) const { return has(code) != is_negated_; }
    [[nodiscard]] bool has(char32_t code) const {
        for (auto const& range : ranges_) {
            if (code >= range.first && code <= range.last) return true;
        }
        if (categories_ != 0 && is_in(code, categories_)) return true;
        if (!borders_.empty() && detail::is_between(code, borders_)) return true;
        if ((has_space_ || has_not_space_) && (is_white_space(code) ? has_space_ : has_not_space_)) return true;
        return (has_word_ || has_not_word_) && (is_pattern_word_character(code) ? has_word_ : has_not_word_);
    }

    std::vector<Range> ranges_;
    UnicodeCategories categories_ = 0;
    std::string_view borders_;
    bool has_space_ = false;
    bool has_not_space_ = false;
    bool has_word_ = false;
    bool has_not_word_ = false;
    bool is_negated_ = false;
    std::array<std::uint64_t, 2> ascii_{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
