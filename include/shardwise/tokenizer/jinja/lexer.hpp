// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/python_text.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

enum class JinjaTokenKind : std::uint8_t {
    data,
    statement_begin,
    statement_end,
    print_begin,
    print_end,
    name,
    text,
    integer,
    real,
    sign,  // an operator or a bracket
    end
};

struct JinjaToken {
    JinjaTokenKind kind = JinjaTokenKind::end;
    std::string text;
    int line = 1;
};

/// What keeps a template from being read.
struct JinjaSyntaxFault {
    std::string reason;
    int line = 1;
    bool is_unsupported = false;
};

/// Cuts a template into tokens, white space already removed: as transformers sets Jinja, the line's end after a statement or a
/// comment goes (trim_blocks), and so do the blanks of a line before one (lstrip_blocks).
class JinjaLexer {
public:
    explicit JinjaLexer(std::string_view source) : source_(with_plain_lines(source)), rest_(source_) {}

    /// The tokens; nothing where `fault` says why.
    [[nodiscard]] std::optional<std::vector<JinjaToken>> run() {
        while (!is_failed() && at_ < rest_.size()) root();
        if (is_failed()) return std::nullopt;
        push(JinjaTokenKind::end, {});
        return std::move(tokens_);
    }
    [[nodiscard]] JinjaSyntaxFault const& fault() const { return fault_; }

private:
    enum class Tag : std::uint8_t { none, statement, print, comment };

    /// Ends of lines become \n, and the last one goes.
    static std::string with_plain_lines(std::string_view source) {
        std::string out;
        out.reserve(source.size());
        for (std::size_t i = 0; i < source.size(); ++i) {
            if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
            out += source[i] == '\r' ? '\n' : source[i];
        }
        if (out.ends_with('\n')) out.pop_back();
        return out;
    }

    [[nodiscard]] bool is_failed() const { return !fault_.reason.empty(); }
    void fail(std::string reason) {
        if (!is_failed()) fault_ = {std::move(reason), line_, false};
    }
    void push(JinjaTokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
    [[nodiscard]] bool sees(std::string_view text) const { return rest_.substr(at_).starts_with(text); }
    /// Goes on to `to`, and counts lines.
    void advance(std::size_t to) {
        for (; at_ < to; ++at_) line_ += rest_[at_] == '\n' ? 1 : 0;
        begins_line_ = at_ > 0 && rest_[at_ - 1] == '\n';
    }
    [[nodiscard]] std::size_t after_space(std::size_t at) const {
        return rest_.size() - strip_text(rest_.substr(at), StripSide::left).size();
    }
    [[nodiscard]] Tag tag_at(std::size_t at) const {
        if (at + 1 >= rest_.size() || rest_[at] != '{') return Tag::none;
        switch (rest_[at + 1]) {
            case '%':
                return Tag::statement;
            case '{':
                return Tag::print;
            case '#':
                return Tag::comment;
            default:
                return Tag::none;
        }
    }
    [[nodiscard]] char sign_at(std::size_t at) const {
        return at < rest_.size() && (rest_[at] == '-' || rest_[at] == '+') ? rest_[at] : '\0';
    }

    /// The text before a tag, without the blanks that the tag removes.
    [[nodiscard]] std::string_view before_tag(std::string_view text, char sign, bool keeps_indent) const {
        if (sign == '-') return strip_text(text, StripSide::right);
        if (sign == '+' || keeps_indent) return text;
        auto const line = text.rfind('\n') + 1;
        if (line == 0 && !begins_line_) return text;
        bool const is_blank = strip_text(text.substr(line), StripSide::both).empty();
        return is_blank ? text.substr(0, line) : text;
    }

    /// Text and the tag that ends it.
    void root() {
        auto tag = at_;
        while (tag < rest_.size() && tag_at(tag) == Tag::none) ++tag;
        auto const text = rest_.substr(at_, tag - at_);
        if (tag >= rest_.size()) {
            push(JinjaTokenKind::data, std::string(text));
            return advance(tag);
        }
        auto const kind = tag_at(tag);
        auto const sign = sign_at(tag + 2);
        auto const kept = before_tag(text, sign, kind == Tag::print);
        if (!kept.empty()) push(JinjaTokenKind::data, std::string(kept));
        advance(tag + (sign == '\0' ? 2 : 3));
        if (kind == Tag::comment) return comment();
        if (kind == Tag::statement) {
            if (auto const begin = raw_begin()) return raw(*begin);
        }
        bool const is_print = kind == Tag::print;
        push(is_print ? JinjaTokenKind::print_begin : JinjaTokenKind::statement_begin, {});
        inside(is_print);
    }

    /// Goes over the end of a tag, `-%}`, `+%}` or `%}`, and the space that it removes; false where there is none.
    bool close(std::string_view end, bool takes_plus, bool takes_line) {
        bool const has_minus = sees("-") && rest_.substr(at_ + 1).starts_with(end);
        bool const has_plus = takes_plus && sees("+") && rest_.substr(at_ + 1).starts_with(end);
        if (!has_minus && !has_plus && !sees(end)) return false;
        auto next = at_ + end.size() + (has_minus || has_plus ? 1 : 0);
        if (has_minus) next = after_space(next);
        if (!has_minus && !has_plus && takes_line && next < rest_.size() && rest_[next] == '\n') ++next;
        advance(next);
        return true;
    }

    void comment() {
        auto const end = rest_.find("#}", at_);
        if (end == std::string_view::npos) return fail("a comment has no end");
        bool const has_sign = end > at_ && (rest_[end - 1] == '-' || rest_[end - 1] == '+');
        advance(has_sign ? end - 1 : end);
        close("#}", true, true);
    }

    /// The first byte after `{% raw %}`, whose `{%` has been taken.
    [[nodiscard]] std::optional<std::size_t> raw_begin() const {
        auto at = after_space(at_);
        if (!rest_.substr(at).starts_with("raw")) return std::nullopt;
        at = after_space(at + 3);
        if (rest_.substr(at).starts_with("-%}")) return after_space(at + 3);
        if (rest_.substr(at).starts_with("%}")) return at + 2;
        return std::nullopt;
    }
    void raw(std::size_t begin) {
        advance(begin);
        for (auto tag = rest_.find("{%", at_); tag != std::string_view::npos; tag = rest_.find("{%", tag + 1)) {
            auto const sign = sign_at(tag + 2);
            auto word = after_space(tag + (sign == '\0' ? 2 : 3));
            if (!rest_.substr(word).starts_with("endraw")) continue;
            word = after_space(word + 6);
            auto const end = rest_.substr(word);
            if (!end.starts_with("%}") && !end.starts_with("-%}") && !end.starts_with("+%}")) continue;
            auto const kept = before_tag(rest_.substr(at_, tag - at_), sign, false);
            if (!kept.empty()) push(JinjaTokenKind::data, std::string(kept));
            advance(word);
            close("%}", true, true);
            return;
        }
        fail("a raw block has no end");
    }

    /// The tokens of a tag.
    void inside(bool is_print) {
        std::string brackets;
        while (!is_failed()) {
            advance(after_space(at_));
            if (at_ >= rest_.size()) return fail("a tag has no end");
            if (brackets.empty() && close(is_print ? "}}" : "%}", !is_print, !is_print)) {
                return push(is_print ? JinjaTokenKind::print_end : JinjaTokenKind::statement_end, {});
            }
            auto const letter = rest_[at_];
            bool const is_digit = letter >= '0' && letter <= '9';
            if (is_digit) {
                number();
            } else if (is_name(letter)) {
                auto end = at_;
                while (end < rest_.size() && (is_name(rest_[end]) || (rest_[end] >= '0' && rest_[end] <= '9'))) ++end;
                push(JinjaTokenKind::name, std::string(rest_.substr(at_, end - at_)));
                advance(end);
            } else if (letter == '\'' || letter == '"') {
                quoted(letter);
            } else {
                sign(brackets);
            }
        }
    }

    [[nodiscard]] static bool is_name(char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || letter == '_';
    }

    void sign(std::string& brackets) {
        static constexpr std::array<std::string_view, 25> signs{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                ">",  "<",  "=",  ".",  ":",  "|",  ","};
        for (auto const text : signs) {
            if (!sees(text)) continue;
            if (text == "(" || text == "[" || text == "{") brackets += text == "(" ? ')' : text == "[" ? ']' : '}';
            if (text == ")" || text == "]" || text == "}") {
                if (brackets.empty() || brackets.back() != text[0])
                    return fail("has a " + std::string(text) + " without its beginning");
                brackets.pop_back();
            }
            push(JinjaTokenKind::sign, std::string(text));
            return advance(at_ + text.size());
        }
        auto const length = length_at(rest_, at_);
        fail("has the character " + std::string(rest_.substr(at_, length)) + " outside of a text");
        fault_.is_unsupported = length > 1;
    }

    /// Digits that may have single _ between them; the first byte after them.
    [[nodiscard]] std::size_t after_digits(std::size_t at, std::string_view set) const {
        auto const is_digit = [&](std::size_t i) {
            return i < rest_.size() && set.find(rest_[i]) != std::string_view::npos;
        };
        while (is_digit(at)) at += rest_.substr(at + 1).starts_with('_') && is_digit(at + 2) ? 2U : 1U;
        return at;
    }

    void number() {
        constexpr std::string_view decimal = "0123456789";
        auto const plain = [&](std::size_t first, std::size_t end) {
            std::string digits;
            for (auto i = first; i < end; ++i)
                if (rest_[i] != '_') digits += rest_[i];
            return digits;
        };
        auto const whole = after_digits(at_, decimal);
        auto end = whole;
        if (end < rest_.size() && rest_[end] == '.') {
            auto const fraction = after_digits(end + 1, decimal);
            if (fraction > end + 1) end = fraction;
        }
        if (end < rest_.size() && (rest_[end] == 'e' || rest_[end] == 'E')) {
            auto const power = end + 1 + (sign_at(end + 1) == '\0' ? 0U : 1U);
            auto const last = after_digits(power, decimal);
            if (last > power) end = last;
        }
        bool const follows_dot = at_ > 0 && rest_[at_ - 1] == '.';
        if (end > whole && !follows_dot) {
            push(JinjaTokenKind::real, plain(at_, end));
            return advance(end);
        }
        auto const prefix = rest_.substr(at_, 2);
        if (prefix == "0x" || prefix == "0X" || prefix == "0o" || prefix == "0O" || prefix == "0b" || prefix == "0B") {
            fail("writes a number in another base than 10");
            fault_.is_unsupported = true;
            return;
        }
        auto const digits = plain(at_, whole);
        if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos)
            return fail("has a number that begins with 0");
        push(JinjaTokenKind::integer, digits);
        advance(whole);
    }

    void quoted(char quote) {
        auto end = at_ + 1;
        while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2U : 1U;
        if (end >= rest_.size()) return fail("a text has no end");
        auto text = unescaped(rest_.substr(at_ + 1, end - at_ - 1));
        if (!text) return;
        push(JinjaTokenKind::text, *std::move(text));
        advance(end + 1);
    }

    /// A text with its escapes replaced, as in Python.
    [[nodiscard]] std::optional<std::string> unescaped(std::string_view text) {
        constexpr std::string_view letters = "\n\\'\"abfnrtv";
        constexpr std::string_view meant = " \\'\"\a\b\f\n\r\t\v";
        std::string out;
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] != '\\') {
                out += text[i];
                continue;
            }
            auto const letter = text[++i];
            if (auto const known = letters.find(letter); known != std::string_view::npos) {
                if (known > 0) out += meant[known];
                continue;
            }
            bool const is_octal = letter >= '0' && letter <= '7';
            std::size_t const most = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : is_octal ? 3 : 0;
            if (most == 0) {
                if (letter == 'N') return fail("names a character by \\N"), fault_.is_unsupported = true, std::nullopt;
                (out += '\\') += letter;
                continue;
            }
            auto first = is_octal ? i : i + 1;
            char32_t code = 0;
            std::size_t count = 0;
            for (; count < most && first < text.size(); ++count, ++first) {
                auto const digit = digit_of(text[first], is_octal ? 8 : 16);
                if (!digit) break;
                code = code * (is_octal ? 8 : 16) + *digit;
            }
            if (!is_octal && count < most) return fail("has an escape that is cut short"), std::nullopt;
            if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
                return fail("has an escape that is no character"), std::nullopt;
            append_utf8(out, code);
            i = first - 1;
        }
        return out;
    }
    [[nodiscard]] static std::optional<unsigned> digit_of(char letter, unsigned base) {
        constexpr std::string_view digits = "0123456789abcdef";
        auto const lower = letter >= 'A' && letter <= 'F' ? static_cast<char>(letter + 32) : letter;
        auto const found = digits.find(lower);
        if (found >= base) return std::nullopt;
        return static_cast<unsigned>(found);
    }

    std::string source_;
    std::string_view rest_;
    std::size_t at_ = 0;
    int line_ = 1;
    bool begins_line_ = true;
    std::vector<JinjaToken> tokens_;
    JinjaSyntaxFault fault_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
