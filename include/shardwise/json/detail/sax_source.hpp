// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/detail/listener.hpp>
#include <shardwise/json/detail/string_rest.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The longest string or number that is read, and the longest run of text without either: the parser buffers those. Of
/// longer strings whose text a handler ignores, the parser sees the beginning.
///
/// Units  bytes; describing an error costs nlohmann_json about 18 times as much, which must stay below 64 MiB
inline constexpr std::size_t max_json_token = std::size_t{3} << 20U;

namespace detail {

/// The key, as it is written, that ends right before `position` and whose value follows; empty where there is none.
[[nodiscard]] inline std::string_view key_before(std::string_view text, std::size_t position) {
    if (position < 2 || text[position - 1] != '"') return {};
    auto const next = text.find_first_not_of(" \t\r\n", position);
    if (next == text.npos || text[next] != ':') return {};
    auto first = position - 1;
    while (first > 0) {
        if (text[--first] != '"') continue;
        auto escapes = first;
        while (escapes > 0 && text[escapes - 1] == '\\') --escapes;
        if ((first - escapes) % 2 == 0) return text.substr(first + 1, position - first - 2);
    }
    return {};
}

/// The text as the parser consumes it; seems to end where the text goes on for too long without a string or number.
class JsonSource {
public:
    /// `listener` is told of bytes that the parser does not see.
    JsonSource(std::string_view text, JsonListener& listener)
        : first_(text.data()),
          begin_(first_),
          at_(first_),
          last_(first_ + text.size()),
          limit_(first_),
          listener_(listener) {
        extend();
    }

    /// Allows another max_json_token bytes from here on.
    void extend() {
        begin_ = at_;
        allow(at_);
    }
    /// Says whether the next string may be cut off.
    void ignore_text(bool is_ignored) { is_ignored_ = is_ignored; }
    [[nodiscard]] bool is_at_limit() {
        if (at_ != limit_) return false;
        if (is_ignored_ && limit_ != last_) skip_rest();
        return at_ == limit_;
    }
    [[nodiscard]] bool is_cut() const { return at_ == limit_ && limit_ != last_; }
    [[nodiscard]] char current() const { return *at_; }
    void advance() { ++at_; }
    /// Where the text goes on after the last string or number.
    [[nodiscard]] std::size_t begin() const { return static_cast<std::size_t>(begin_ - first_); }
    /// The bytes consumed.
    [[nodiscard]] std::size_t position() const { return static_cast<std::size_t>(at_ - first_); }
    /// The bytes among them that the parser did not see.
    [[nodiscard]] std::size_t skipped() const { return skipped_; }

private:
    void allow(char const* from) { limit_ = from + std::min(static_cast<std::size_t>(last_ - from), max_json_token); }
    /// Moves on to the end of the string that reaches the limit, or to what is wrong with it.
    void skip_rest() {
        auto const* const quote = std::find(begin_, at_, '"');
        if (quote == at_) return;
        auto const* at = skip_string(quote + 1, at_, last_);
        if (at < at_) return;
        if (at > at_) {
            // The limit lies within a character or an escape: the parser has that yet to see.
            limit_ = at;
            return;
        }
        constexpr std::ptrdiff_t step = std::ptrdiff_t{1} << 22U;
        while (true) {
            auto const* const end = at + std::min(step, last_ - at);
            at = skip_string(at, end, last_);
            listener_.consumed(static_cast<std::size_t>(at - first_));
            if (at < end || end == last_) break;
        }
        skipped_ += static_cast<std::size_t>(at - at_);
        at_ = at;
        begin_ = at;
        allow(at);
    }

    char const* first_;
    /// Where the text goes on after the last string or number.
    char const* begin_;
    char const* at_;
    char const* last_;
    char const* limit_;
    JsonListener& listener_;
    std::size_t skipped_ = 0;
    bool is_ignored_ = false;
};

/// Moves a source on; equal to any other iterator where the source ends.
class JsonSourceIterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = char const*;
    using reference = char;

    explicit JsonSourceIterator(JsonSource& source) : source_(&source) {}
    [[nodiscard]] char operator*() const { return source_->current(); }
    JsonSourceIterator& operator++() { return source_->advance(), *this; }
    friend bool operator==(JsonSourceIterator const& a, JsonSourceIterator const&) { return a.source_->is_at_limit(); }

private:
    JsonSource* source_;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
