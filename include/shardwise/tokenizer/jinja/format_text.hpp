// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/value_text.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// `text % values`, for the conversions s, r, d, i, f and x, with a width and a precision.
///
/// Errors  wrong where Python refuses it, unsupported for other conversions
[[nodiscard]] inline JinjaValue format_percent(JinjaRunState& run, std::string_view text,
                                               std::vector<JinjaValue> const& values, bool is_tuple) {
    std::string out;
    std::size_t used = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            out += text[at];
            continue;
        }
        auto const end = text.find_first_not_of("0123456789.-", at + 1);
        if (end == std::string_view::npos) return run.wrong("formats by an incomplete %");
        auto const flags = text.substr(at + 1, end - at - 1);
        char const letter = text[end];
        at = end;
        if (letter == '%' && flags.empty()) {
            out += '%';
            continue;
        }
        if (std::string_view("srdifx").find(letter) == std::string_view::npos || flags.size() > 6)
            return run.unsupported("formats by %" + std::string(flags) + letter);
        if (used == values.size()) return run.wrong("formats more values than it has");
        auto const& value = values[used++];
        bool const is_text = letter == 's' || letter == 'r';
        if (!is_text && value.is_undefined()) return run.wrong(std::string(value.text()));
        if (!is_text && !value.is_number()) return run.wrong("formats what is no number by %" + std::string(1, letter));
        if (is_text) {
            if (!flags.empty()) return run.unsupported("formats by %" + std::string(flags) + letter);
            if (letter == 's')
                out += text_of(run, value);
            else
                append_repr(run, out, value);
            continue;
        }
        auto const form = "%" + std::string(flags) + (letter == 'f' ? "f" : letter == 'x' ? "llx" : "lld");
        char digits[512];
        auto const is_whole = letter != 'f';
        if (is_whole && (value.is(JinjaKind::real) || flags.find('.') != std::string_view::npos))
            return run.unsupported("formats a float by %" + std::string(flags) + letter);
        int width = 0;
        auto const first = flags.find_first_of("123456789");
        if (first != std::string_view::npos)
            static_cast<void>(std::from_chars(flags.data() + first, flags.data() + flags.size(), width));
        auto const point = flags.find('.');
        bool const is_odd = point != std::string_view::npos && (point != flags.rfind('.') || flags.size() > point + 3);
        if (width > 100 || is_odd || (flags.size() > 1 && flags.find('-', 1) != std::string_view::npos))
            return run.unsupported("formats by %" + std::string(flags) + letter);
        if (letter == 'x' && value.integer() < 0) return run.unsupported("formats a negative number by %x");
        int const length =
            is_whole ? std::snprintf(digits, sizeof digits, form.c_str(), static_cast<long long>(value.integer()))
                     : std::snprintf(digits, sizeof digits, form.c_str(), value.real());
        if (length < 0 || length >= static_cast<int>(sizeof digits)) return run.unsupported("formats a long number");
        out.append(digits, static_cast<std::size_t>(length));
    }
    bool const is_mapping = !is_tuple && values.size() == 1 && !values[0].is_string() &&
                            (values[0].is(JinjaKind::dict) || values[0].is_indexed());
    if (used < values.size() && !is_mapping) return run.wrong("formats fewer values than it has");
    return run.make_string(std::move(out));
}

/// str.format, for {}, {0} and {name}.
///
/// Errors  wrong where Python refuses it, unsupported for what follows a name within the braces
[[nodiscard]] inline JinjaValue format_braces(JinjaRunState& run, std::string_view text,
                                              std::vector<JinjaValue> const& values,
                                              std::vector<std::pair<std::string, JinjaValue>> const& named) {
    std::string out;
    std::size_t used = 0;
    bool has_numbers = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        char const letter = text[at];
        if (letter != '{' && letter != '}') {
            out += letter;
            continue;
        }
        if (at + 1 < text.size() && text[at + 1] == letter) {
            out += letter;
            ++at;
            continue;
        }
        auto const end = text.find('}', at);
        if (letter == '}' || end == std::string_view::npos) return run.wrong("formats by a brace without its other");
        auto const field = text.substr(at + 1, end - at - 1);
        at = end;
        if (field.find_first_of("{.[:!") != std::string_view::npos)
            return run.unsupported("formats by {" + std::string(field) + "}");
        bool const is_number = !field.empty() && field.find_first_not_of("0123456789") == std::string_view::npos;
        if ((field.empty() && has_numbers) || (is_number && used > 0))
            return run.wrong("formats by numbered and unnumbered braces");
        has_numbers = has_numbers || is_number;
        std::size_t index = used;
        if (is_number && field.size() < 9)
            static_cast<void>(std::from_chars(field.data(), field.data() + field.size(), index));
        if (field.empty() || is_number) {
            if (field.empty()) ++used;
            if (index >= values.size() || field.size() >= 9) return run.wrong("formats more values than it has");
            out += text_of(run, values[index]);
            continue;
        }
        JinjaValue const* found = nullptr;
        for (auto const& [name, value] : named)
            if (name == field) found = &value;
        if (!found) return run.wrong("formats by the missing name " + std::string(field));
        out += text_of(run, *found);
    }
    return run.make_string(std::move(out));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
