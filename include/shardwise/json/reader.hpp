#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/detail/number.hpp>
#include <shardwise/json/detail/text.hpp>
#include <shardwise/json/handler.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline v0 {

/// The deepest nesting that any reading may ask for.
inline constexpr std::size_t max_json_depth = 1024;

namespace detail {

/// One pass over a text that calls a handler; no recursion, no tree.
template <JsonHandler Handler>
class JsonScanner {
public:
    JsonScanner(std::string_view text, Handler& handler, std::size_t max_depth)
        : first_(text.data()),
          at_(text.data()),
          last_(text.data() + text.size()),
          handler_(handler),
          max_depth_(max_depth < max_json_depth ? max_depth : max_json_depth) {}

    Result<> read() {
        skip_space();
        while (value()) {
            if (!after_value()) break;
            if (is_done_) return {};
        }
        return is_refused_ ? handler_.refusal() : error_;
    }

private:
    bool fail(char const* reason) { return fail(reason, at_); }
    bool fail(char const* reason, char const* at) {
        error_.because(std::string(reason) + " at byte " + std::to_string(at - first_));
        return false;
    }
    /// Passes the handler's answer on and notes a refusal.
    bool told(bool goes_on) {
        is_refused_ = !goes_on;
        return goes_on;
    }
    [[nodiscard]] bool is_at(char c) const { return at_ != last_ && *at_ == c; }
    void skip_space() {
        while (at_ != last_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    }
    [[nodiscard]] bool is_in_object() const { return (nesting_[depth_ / 64] >> depth_ % 64 & 1U) != 0; }
    bool open(bool is_object) {
        if (depth_ == max_depth_) return fail("is nested too deep");
        ++depth_;
        auto const bit = std::uint64_t{1} << depth_ % 64;
        nesting_[depth_ / 64] = is_object ? nesting_[depth_ / 64] | bit : nesting_[depth_ / 64] & ~bit;
        ++at_;
        return true;
    }
    bool close(bool is_object) {
        --depth_;
        ++at_;
        return told(is_object ? handler_.end_object() : handler_.end_array());
    }

    /// Reads a value; of an object or array only up to its first member, all of it where it is empty.
    bool value() {
        while (true) {
            if (at_ == last_) return fail("ends early");
            switch (*at_) {
                case '{':
                    if (!open(true) || !told(handler_.begin_object())) return false;
                    skip_space();
                    if (is_at('}')) return close(true);
                    if (!key()) return false;
                    continue;
                case '[':
                    if (!open(false) || !told(handler_.begin_array())) return false;
                    skip_space();
                    if (is_at(']')) return close(false);
                    continue;
                case '"': {
                    std::string_view text;
                    return string(text) && told(handler_.string(text));
                }
                case 't':
                    return word("true") && told(handler_.boolean(true));
                case 'f':
                    return word("false") && told(handler_.boolean(false));
                case 'n':
                    return word("null") && told(handler_.null());
                case 'N':
                case 'I':
                    return fail("has NaN or Infinity, which JSON does not have,");
                default:
                    return number();
            }
        }
    }
    /// Closes what ends here and moves to the next value, past its key.
    bool after_value() {
        while (true) {
            skip_space();
            if (depth_ == 0) {
                is_done_ = at_ == last_;
                return is_done_ || fail("has more text after its end");
            }
            bool const in_object = is_in_object();
            if (is_at(',')) {
                ++at_;
                skip_space();
                return !in_object || key();
            }
            if (!is_at(in_object ? '}' : ']')) {
                if (at_ == last_) return fail("ends early");
                return fail(in_object ? "needs ',' or '}'" : "needs ',' or ']'");
            }
            if (!close(in_object)) return false;
        }
    }
    bool key() {
        if (!is_at('"')) return fail(at_ == last_ ? "ends early" : "needs a key in quotes");
        std::string_view text;
        if (!string(text) || !told(handler_.key(text))) return false;
        skip_space();
        if (!is_at(':')) return fail(at_ == last_ ? "ends early" : "needs ':' after a key");
        ++at_;
        skip_space();
        return true;
    }
    bool word(std::string_view expected) {
        auto const left = static_cast<std::size_t>(last_ - at_);
        if (left < expected.size() || std::string_view{at_, expected.size()} != expected) {
            return fail("is not a value");
        }
        at_ += expected.size();
        return true;
    }
    bool number() {
        if (*at_ != '-' && !is_digit(*at_)) return fail("is not a value");
        auto const number = scan_number(at_, last_);
        using Kind = JsonNumber::Kind;
        if (number.kind == Kind::too_large) return fail("has a number too large for a double");
        if (number.kind == Kind::malformed) {
            bool const is_infinity = number.end != last_ && (*number.end == 'I' || *number.end == 'N');
            if (is_infinity) return fail("has NaN or Infinity, which JSON does not have,");
            return fail("has a malformed number", number.end);
        }
        at_ = number.end;
        if (number.kind == Kind::integer) return told(handler_.integer(number.integer));
        if (number.kind == Kind::unsigned_integer) return told(handler_.unsigned_integer(number.unsigned_integer));
        return told(handler_.real(number.real));
    }

    /// Reads a string: a view of the text itself where it has no escapes, of a buffer otherwise.
    bool string(std::string_view& out) {
        char const* part = ++at_;
        unescaped_.clear();
        while (true) {
            at_ = skip_plain(at_, last_);
            if (at_ == last_) return fail("ends within a string");
            auto const byte = static_cast<unsigned char>(*at_);
            if (byte == '"') break;
            if (byte == '\\') {
                unescaped_.append(part, at_);
                if (!escape()) return false;
                part = at_;
            } else if (byte >= 0x80) {
                auto const length = utf8_length(at_, last_);
                if (length == 0) return fail("has text that is not UTF-8");
                at_ += length;
            } else if (byte < 0x20) {
                return fail("has a control character within a string");
            } else {
                ++at_;
            }
        }
        if (unescaped_.empty()) {
            out = {part, static_cast<std::size_t>(at_ - part)};
        } else {
            out = unescaped_.append(part, at_);
        }
        ++at_;
        return true;
    }
    bool escape() {
        if (last_ - at_ < 2) return fail("ends within a string");
        switch (at_[1]) {
            case '"':
                unescaped_ += '"';
                break;
            case '\\':
                unescaped_ += '\\';
                break;
            case '/':
                unescaped_ += '/';
                break;
            case 'b':
                unescaped_ += '\b';
                break;
            case 'f':
                unescaped_ += '\f';
                break;
            case 'n':
                unescaped_ += '\n';
                break;
            case 'r':
                unescaped_ += '\r';
                break;
            case 't':
                unescaped_ += '\t';
                break;
            case 'u':
                return code_point();
            default:
                return fail("has an unknown escape");
        }
        at_ += 2;
        return true;
    }
    bool code_point() {
        std::uint32_t code = 0;
        if (!code_unit(code)) return fail("has a malformed \\u escape");
        if (code >= 0xD800 && code < 0xE000) {
            std::uint32_t low = 0;
            bool const is_pair = code < 0xDC00 && code_unit(low) && low >= 0xDC00 && low < 0xE000;
            if (!is_pair) return fail("has half of a surrogate pair");
            code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
        }
        append_utf8(unescaped_, code);
        return true;
    }
    /// Reads "\uXXXX" and moves past it.
    bool code_unit(std::uint32_t& code) {
        if (last_ - at_ < 6 || at_[0] != '\\' || at_[1] != 'u') return false;
        code = 0;
        for (int i = 2; i < 6; ++i) {
            char const c = at_[i];
            bool const is_lower = c >= 'a' && c <= 'f';
            bool const is_upper = c >= 'A' && c <= 'F';
            if (!is_lower && !is_upper && !is_digit(c)) return false;
            int const digit = is_lower ? c - 'a' + 10 : is_upper ? c - 'A' + 10 : c - '0';
            code = code * 16 + static_cast<std::uint32_t>(digit);
        }
        at_ += 6;
        return true;
    }

    char const* first_;
    char const* at_;
    char const* last_;
    Handler& handler_;
    std::size_t max_depth_;
    std::size_t depth_ = 0;
    std::array<std::uint64_t, max_json_depth / 64 + 1> nesting_{};  // bit d: level d is an object
    std::string unescaped_;
    bool is_done_ = false;
    bool is_refused_ = false;
    Error error_{ErrorCode::malformed_file};
};

}  // namespace detail

/// Reads a JSON text (RFC 8259) and tells the handler what it meets, in order.
///
/// Strict: UTF-8 only, no lone surrogates, no comments, no NaN, nothing after the value. Whoever must know of
/// duplicate keys looks at them in `key`; parse_json refuses them.
///
/// Memory  one buffer for the longest string that has escapes; constant otherwise, nesting included
/// Errors  malformed_file with the byte; what the handler refuses
template <JsonHandler Handler>
Result<> read_json(std::string_view text, Handler& handler, std::size_t max_depth = 64) {
    return detail::JsonScanner<Handler>(text, handler, max_depth).read();
}

}  // namespace shardwise::inline v0
