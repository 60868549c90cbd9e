#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

namespace shardwise::inline v0_2_0 {

/// The longest string or number that is read, and the longest run of text without either: the parser buffers those.
///
/// Units  bytes; describing an error costs nlohmann_json about 18 times as much, which must stay below 64 MiB
inline constexpr std::size_t max_json_token = std::size_t{3} << 20U;

namespace detail {

/// The text as the parser consumes it; seems to end where the text goes on for too long without a string or number.
class JsonSource {
public:
    explicit JsonSource(std::string_view text)
        : first_(text.data()), at_(first_), last_(first_ + text.size()), limit_(first_) {
        extend();
    }

    /// Allows another max_json_token bytes from here on.
    void extend() {
        auto const left = static_cast<std::size_t>(last_ - at_);
        limit_ = at_ + (left < max_json_token ? left : max_json_token);
    }
    [[nodiscard]] bool is_at_limit() const { return at_ == limit_; }
    [[nodiscard]] bool is_cut() const { return at_ == limit_ && limit_ != last_; }
    [[nodiscard]] char current() const { return *at_; }
    void advance() { ++at_; }
    /// The bytes consumed.
    [[nodiscard]] std::size_t position() const { return static_cast<std::size_t>(at_ - first_); }

private:
    char const* first_;
    char const* at_;
    char const* last_;
    char const* limit_;
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

}  // namespace shardwise::inline v0_2_0
