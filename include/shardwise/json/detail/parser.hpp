// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/detail/listener.hpp>
#include <shardwise/json/detail/number.hpp>
#include <shardwise/json/detail/string_rest.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The longest string or number that is read, and the longest run of text without either. Of longer strings whose text a handler
/// ignores, it is told the beginning.
///
/// Units  bytes
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

/// Reads a text value by value, without recursion, and tells a listener what it meets.
class JsonParser {
public:
    JsonParser(std::string_view text, JsonListener& handler, std::size_t max_depth)
        : text_(text),
          at_(text.data()),
          begin_(at_),
          last_(at_ + text.size()),
          limit_(at_),
          handler_(handler),
          max_depth_(max_depth) {
        extend();
    }

    Result<> read() {
        if (text_.starts_with("\xEF\xBB\xBF")) return fail("has a byte order mark", at_), error_;
        if (!read_all()) return is_failed_ ? error_ : handler_.refusal();
        return {};
    }

private:
    /// What may come next; first_: the closing bracket, too.
    enum class Next { value, first_value, key, first_key, colon, separator, end };

    bool read_all() {
        auto next = Next::value;
        while (true) {
            while (at_ != limit_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
            if (at_ == limit_) return limit_ == last_ && next == Next::end ? true : fail_at_end();
            auto const letter = *at_;
            auto const bracket = open_.empty() ? '\0' : open_.back() == '[' ? ']' : '}';
            bool const may_close = next == Next::first_value || next == Next::first_key || next == Next::separator;
            if (may_close && letter == bracket) {
                ++at_;
                open_.pop_back();
                if (!(bracket == ']' ? handler_.end_array() : handler_.end_object())) return false;
                next = after_value();
                continue;
            }
            switch (next) {
                case Next::value:
                case Next::first_value:
                    if (letter == '{' || letter == '[') {
                        if (open_.size() == max_depth_) return fail("is nested too deep", at_);
                        ++at_;
                        open_ += letter;
                        if (!(letter == '[' ? handler_.begin_array() : handler_.begin_object())) return false;
                        next = letter == '[' ? Next::first_value : Next::first_key;
                        break;
                    }
                    if (!read_scalar(letter)) return false;
                    next = after_value();
                    break;
                case Next::key:
                case Next::first_key:
                    if (letter != '"') return fail_at_token("string literal");
                    if (!read_string(true)) return false;
                    next = Next::colon;
                    break;
                case Next::colon:
                    if (letter != ':') return fail_at_token("':'");
                    ++at_;
                    next = Next::value;
                    break;
                case Next::separator:
                    if (letter != ',') return fail_at_token(bracket == ']' ? "']'" : "'}'");
                    ++at_;
                    next = bracket == ']' ? Next::value : Next::key;
                    break;
                case Next::end:
                    return fail_at_token("end of input");
            }
        }
    }
    [[nodiscard]] Next after_value() const { return open_.empty() ? Next::end : Next::separator; }

    bool read_scalar(char letter) {
        if (letter == '"') return read_string(false);
        if (letter == '-' || is_digit(letter)) return read_number();
        auto const word = word_of(letter);
        if (word.empty()) return fail_at_token("'[', '{', or a literal");
        if (!skip_word(word)) return false;
        return letter == 'n' ? handler_.null() : handler_.boolean(letter == 't');
    }
    [[nodiscard]] static std::string_view word_of(char letter) {
        return letter == 't' ? "true" : letter == 'f' ? "false" : letter == 'n' ? "null" : "";
    }
    bool skip_word(std::string_view word) {
        for (auto const letter : word) {
            if (at_ == limit_) return fail_at_end();
            if (*at_ != letter) return fail_at_byte("invalid literal", at_);
            ++at_;
        }
        return true;
    }

    bool read_number() {
        auto const* const first = at_;
        auto const shape = scan_number(first, limit_);
        at_ = shape.end;
        if (!shape.is_whole) return at_ == limit_ ? fail_at_end() : fail_at_byte("invalid number", at_);
        if (at_ == limit_ && limit_ != last_) return fail_at_end();
        std::string_view const digits(first, static_cast<std::size_t>(at_ - first));
        auto const number = parse_number(digits, shape.is_real);
        if (number.kind == JsonNumber::Kind::too_large) return fail("has a number too large for a double", at_ - 1);
        extend();
        switch (number.kind) {
            case JsonNumber::Kind::integer:
                return handler_.integer(number.integer);
            case JsonNumber::Kind::unsigned_integer:
                return handler_.unsigned_integer(number.unsigned_integer);
            case JsonNumber::Kind::real:
            case JsonNumber::Kind::too_large:
                break;
        }
        return handler_.real(number.real, digits);
    }

    bool read_string(bool is_key) {
        auto const* const first = at_ + 1;
        if (!skip_string_token(handler_.ignores_text())) return false;
        auto const* last = at_ - 1;
        if (static_cast<std::size_t>(last - first) > max_json_token)
            last = skip_string(first, first + max_json_token - 16, last);
        auto const text = decoded(first, last);
        extend();
        return is_key ? handler_.key(text) : handler_.string(text);
    }
    /// Moves behind the closing quote, also of a string that is longer than a token where `is_ignored`.
    bool skip_string_token(bool is_ignored) {
        ++at_;
        at_ = skip_string(at_, limit_, last_);
        constexpr std::ptrdiff_t step = std::ptrdiff_t{1} << 22U;
        while (at_ >= limit_ && limit_ != last_) {
            if (!is_ignored) return at_ = limit_, fail_at_end();
            limit_ = at_ + (last_ - at_ < step ? last_ - at_ : step);
            at_ = skip_string(at_, limit_, last_);
            handler_.consumed(position(at_));
        }
        if (at_ == last_) return fail_at_end();
        if (*at_ != '"') {
            auto const byte = static_cast<unsigned char>(*at_);
            return fail_at_byte(byte < 0x20      ? "invalid string: a control character must be escaped"
                                : *at_ == '\\' ? "invalid string: an escape that JSON does not have"
                                               : "invalid string: ill-formed UTF-8 byte",
                                at_);
        }
        ++at_;
        return true;
    }
    /// What stands between two quotes and was skipped.
    [[nodiscard]] std::string_view decoded(char const* first, char const* last) {
        auto const size = static_cast<std::size_t>(last - first);
        auto const* escape = static_cast<char const*>(size == 0 ? nullptr : std::memchr(first, '\\', size));
        if (escape == nullptr) return {first, size};
        decoded_.clear();
        while (escape != nullptr) {
            decoded_.append(first, escape);
            first = append_escape(escape, decoded_);
            auto const left = static_cast<std::size_t>(last - first);
            escape = static_cast<char const*>(left == 0 ? nullptr : std::memchr(first, '\\', left));
        }
        decoded_.append(first, last);
        return decoded_;
    }

    /// Notes that a string or number has been read, and allows another max_json_token bytes from here on.
    void extend() {
        begin_ = at_;
        auto const left = static_cast<std::size_t>(last_ - at_);
        limit_ = at_ + (left < max_json_token ? left : max_json_token);
        handler_.consumed(position(at_));
    }

    [[nodiscard]] std::size_t position(char const* at) const { return static_cast<std::size_t>(at - text_.data()); }

    bool fail(std::string_view reason, char const* byte) {
        is_failed_ = true;
        error_.because(std::string(reason) + " at byte " + std::to_string(position(byte)));
        return false;
    }
    bool fail_at_byte(std::string_view complaint, char const* byte) {
        if (*byte == '\0') return fail("has a NUL", byte);
        if (*byte == 'N' || *byte == 'I') return fail("has NaN or Infinity, which JSON does not have,", byte);
        return fail("is not JSON (" + std::string(complaint) + ")", byte);
    }
    /// At the end of the text, or of what may stand without a string or number.
    bool fail_at_end() {
        if (limit_ == last_) return fail("ends early", last_);
        error_ = Error{ErrorCode::capacity_exceeded}.at(key_before(text_, position(begin_)));
        return fail("has more than " + std::to_string(max_json_token) + " bytes without a further string or number",
                    limit_);
    }
    /// At a token that may not stand here, by its last byte.
    bool fail_at_token(std::string_view expected) {
        auto const letter = *at_;
        std::string name;
        if (letter == '"') {
            name = "string literal";
            if (!skip_string_token(false)) return false;
        } else if (letter == '-' || is_digit(letter)) {
            name = "number literal";
            auto const shape = scan_number(at_, limit_);
            at_ = shape.end;
            if (!shape.is_whole) return at_ == limit_ ? fail_at_end() : fail_at_byte("invalid number", at_);
        } else if (auto const word = word_of(letter); !word.empty()) {
            name = std::string(word) + " literal";
            if (!skip_word(word)) return false;
        } else if (std::string_view("{}[]:,").find(letter) != std::string_view::npos) {
            name = {'\'', letter, '\''};
            ++at_;
        } else {
            return fail_at_byte("invalid literal", at_);
        }
        return fail("is not JSON (unexpected " + name + "; expected " + std::string(expected) + ")", at_ - 1);
    }

    std::string_view text_;
    char const* at_;
    /// Where the text goes on after the last string or number.
    char const* begin_;
    char const* last_;
    char const* limit_;
    JsonListener& handler_;
    std::size_t max_depth_;
    /// The brackets that are open.
    std::string open_;
    std::string decoded_;
    bool is_failed_ = false;
    Error error_{ErrorCode::malformed_file};
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
