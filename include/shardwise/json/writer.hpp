// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/core/utf8.hpp>
#include <shardwise/json/detail/text.hpp>

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Writes one JSON document in the order of the calls: valid UTF-8, escaped, no space but the indentation asked for.
///
/// Example  JsonWriter json; json.begin_object(); json.member("fits", true); json.end_object();
///          puts(json.text().c_str());
class JsonWriter {
public:
    JsonWriter() = default;
    /// Breaks lines and indents each level by this many spaces; 0 writes one line.
    explicit JsonWriter(int indent) : indent_(indent) {}

    JsonWriter& begin_object() { return open('{'); }
    JsonWriter& end_object() { return close('}'); }
    JsonWriter& begin_array() { return open('['); }
    JsonWriter& end_array() { return close(']'); }

    /// The key of the member that is written next.
    JsonWriter& key(std::string_view name) {
        separate();
        quote(name);
        text_ += indent_ > 0 ? ": " : ":";
        follows_key_ = true;
        return *this;
    }

    JsonWriter& value(std::string_view text) { return separate(), quote(text), *this; }
    JsonWriter& value(char const* text) { return value(std::string_view{text}); }
    JsonWriter& value(bool flag) { return separate(), text_ += flag ? "true" : "false", *this; }
    JsonWriter& value(std::nullptr_t) { return separate(), text_ += "null", *this; }
    JsonWriter& value(Bytes bytes) { return value(bytes.count()); }
    template <std::integral Integer>
    JsonWriter& value(Integer number) {
        return separate(), text_ += std::to_string(number), *this;
    }
    /// The shortest digits that read back as the same number; null for what JSON cannot say (NaN, infinity).
    JsonWriter& value(double number) {
        if (!std::isfinite(number)) return value(nullptr);
        separate();
        char digits[40];
        auto const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
        std::string_view const written{digits, static_cast<std::size_t>(end - digits)};
        text_ += written;
        if (written.find_first_of(".e") == std::string_view::npos) text_ += ".0";
        return *this;
    }

    /// A key and its value.
    template <class T>
    JsonWriter& member(std::string_view name, T const& content) {
        return key(name).value(content);
    }

    [[nodiscard]] std::string const& text() const& { return text_; }
    [[nodiscard]] std::string text() && { return std::move(text_); }

private:
    JsonWriter& open(char bracket) {
        separate();
        text_ += bracket;
        has_member_.push_back(false);
        return *this;
    }
    JsonWriter& close(char bracket) {
        bool const is_empty = !has_member_.back();
        has_member_.pop_back();
        if (!is_empty) break_line();
        text_ += bracket;
        return *this;
    }
    void separate() {
        if (std::exchange(follows_key_, false) || has_member_.empty()) return;
        if (has_member_.back()) text_ += ',';
        has_member_.back() = true;
        break_line();
    }
    void break_line() {
        if (indent_ <= 0) return;
        text_ += '\n';
        text_.append(has_member_.size() * static_cast<std::size_t>(indent_), ' ');
    }
    void quote(std::string_view text) {
        text_ += '"';
        char const* at = text.data();
        char const* const last = at + text.size();
        while (at != last) {
            char const* const plain = detail::skip_plain(at, last);
            text_.append(at, plain);
            at = plain;
            if (at == last) break;
            auto const length = utf8_length({at, static_cast<std::size_t>(last - at)});
            auto const byte = static_cast<unsigned char>(*at);
            // U+0080..U+009F and DEL are control characters that terminals obey.
            bool const is_c1 = length == 2 && byte == 0xC2 && static_cast<unsigned char>(at[1]) < 0xA0;
            if (length == 0) {
                text_ += "\xEF\xBF\xBD";
            } else if (byte == '"' || byte == '\\') {
                (text_ += '\\') += *at;
            } else if (byte == '\n') {
                text_ += "\\n";
            } else if (byte == '\t') {
                text_ += "\\t";
            } else if (byte < 0x20 || byte == 0x7F || is_c1) {
                escape(is_c1 ? static_cast<unsigned char>(at[1]) : byte);
            } else if (is_direction_mark({at, length})) {
                // They make a name look like another.
                auto const bits = [at](std::size_t i) { return static_cast<unsigned char>(at[i]) & 63U; };
                escape(length == 2 ? 0x61CU : (byte & 15U) << 12U | bits(1) << 6U | bits(2));
            } else {
                text_.append(at, length);
            }
            at += length == 0 ? 1 : length;
        }
        text_ += '"';
    }
    void escape(unsigned code) {
        constexpr std::string_view digits = "0123456789abcdef";
        text_ += "\\u";
        for (auto shift = 16U; shift > 0; shift -= 4) text_ += digits[code >> (shift - 4U) & 15U];
    }

    std::string text_;
    std::vector<bool> has_member_;  // one for each open bracket
    int indent_ = 0;
    bool follows_key_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
