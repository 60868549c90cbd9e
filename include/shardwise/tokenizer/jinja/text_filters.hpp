// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/arguments.hpp>
#include <shardwise/tokenizer/jinja/format_text.hpp>
#include <shardwise/tokenizer/jinja/text_methods.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Filters that make a text or a number; each takes what stands before the | and the filter's arguments.

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

[[nodiscard]] inline JinjaValue filter_string(JinjaRunState& run, JinjaValue const& value,
                                              JinjaArguments const& given) {
    JinjaBound const none(run, "string", given, {});
    if (value.is_string()) return value;
    return run.make_string(text_of(run, value));
}

[[nodiscard]] inline JinjaValue filter_safe(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const none(run, "safe", given, {});
    return JinjaValue(text_of(run, value), JinjaKind::markup);
}

[[nodiscard]] inline JinjaValue filter_upper(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const none(run, "upper", given, {});
    return change_case(run, text_of(run, value), TextCase::upper);
}
[[nodiscard]] inline JinjaValue filter_lower(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const none(run, "lower", given, {});
    return change_case(run, text_of(run, value), TextCase::lower);
}
[[nodiscard]] inline JinjaValue filter_capitalize(JinjaRunState& run, JinjaValue const& value,
                                                  JinjaArguments const& given) {
    JinjaBound const none(run, "capitalize", given, {});
    return change_case(run, text_of(run, value), TextCase::capital);
}

/// Jinja's own rule: words begin after white space, hyphens and opening brackets.
[[nodiscard]] inline JinjaValue filter_title(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const none(run, "title", given, {});
    auto const text = text_of(run, value);
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        auto const is_break = [&](std::size_t i) {
            return std::string_view("-({[<").find(text[i]) != std::string_view::npos ||
                   is_python_space(utf8_code_point(std::string_view(text).substr(i), length_at(text, i)));
        };
        auto end = at;
        bool const breaks = is_break(at);
        while (end < text.size() && is_break(end) == breaks) end += length_at(text, end);
        auto const part = std::string_view(text).substr(at, end - at);
        auto const word = breaks ? JinjaValue(std::string(part)) : change_case(run, part, TextCase::capital);
        if (run.is_failed()) return {};
        out += word.text();
        at = end;
    }
    return run.make_string(std::move(out));
}

[[nodiscard]] inline JinjaValue filter_trim(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const bound(run, "trim", given, {"chars"});
    auto const text = text_of(run, value);
    if (!bound[0] || bound[0]->is_none()) return run.make_string(std::string(strip_text(text, StripSide::both)));
    auto const set = bound.text(run, 0);
    if (!run.search_text(text.size(), set.size())) return {};
    return run.make_string(std::string(strip_text(text, StripSide::both, set)));
}

[[nodiscard]] inline JinjaValue filter_replace(JinjaRunState& run, JinjaValue const& value,
                                               JinjaArguments const& given) {
    JinjaBound const bound(run, "replace", given, {"old", "new", "count"});
    if (!bound.needs(run, "replace", 2)) return {};
    auto const count = bound[2] && !bound[2]->is_none() ? bound.integer(run, 2, -1) : -1;
    return replace_text(run, text_of(run, value), text_of(run, *bound[0]), text_of(run, *bound[1]), count);
}

[[nodiscard]] inline JinjaValue filter_indent(JinjaRunState& run, JinjaValue const& value,
                                              JinjaArguments const& given) {
    JinjaBound const bound(run, "indent", given, {"width", "first", "blank"});
    if (!value.is_string()) return run.wrong("indents a " + std::string(type_name(value.kind())));
    auto const text = text_of(run, value) + "\n";
    bool const is_text = bound[0] && bound[0]->is_string();
    auto const width = is_text ? 0 : bound.integer(run, 0, 4);
    if (width > 10'000) return run.unsupported("indents by more than 10000");
    auto const blanks =
        is_text ? std::string(bound[0]->text()) : std::string(static_cast<std::size_t>(width < 0 ? 0 : width), ' ');
    auto const lines = split_lines(text);
    if (!run.take((blanks.size() + 1) * lines.size() + text.size())) return {};
    std::string out = bound.flag(1) ? blanks : std::string{};
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (i > 0) out += '\n';
        if (i > 0 && (!lines[i].empty() || bound.flag(2))) out += blanks;
        out += lines[i];
    }
    return run.make_string(std::move(out));
}

[[nodiscard]] inline JinjaValue filter_center(JinjaRunState& run, JinjaValue const& value,
                                              JinjaArguments const& given) {
    JinjaBound const bound(run, "center", given, {"width"});
    return pad_text(run, text_of(run, value), bound.integer(run, 0, 80), " ", TextPad::both);
}

[[nodiscard]] inline JinjaValue filter_format(JinjaRunState& run, JinjaValue const& value,
                                              JinjaArguments const& given) {
    if (!given.named.empty()) return run.unsupported("formats by names");
    return format_percent(run, text_of(run, value), given.values, true);
}

[[nodiscard]] inline JinjaValue filter_tojson(JinjaRunState& run, JinjaValue const& value,
                                              JinjaArguments const& given) {
    JinjaBound const bound(run, "tojson", given, {"ensure_ascii", "indent", "separators", "sort_keys"});
    JsonStyle style;
    style.is_ascii = bound.flag(0);
    style.sorts_keys = bound.flag(3);
    if (bound[1] && !bound[1]->is_none()) {
        style.has_indent = true;
        style.between_items = ",";
        if (bound[1]->is_string()) {
            style.indent = std::string(bound[1]->text());
        } else {
            auto const width = bound.integer(run, 1, 0);
            if (width > 1000) return run.unsupported("indents JSON by more than 1000");
            style.indent.assign(static_cast<std::size_t>(width < 0 ? 0 : width), ' ');
        }
    }
    if (bound[2] && !bound[2]->is_none()) {
        auto const parts = all_items(run, *bound[2]);
        if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string())
            return run.wrong("tojson's separators are not two texts");
        style.between_items = std::string(parts[0].text());
        style.after_key = std::string(parts[1].text());
    }
    std::string out;
    append_json(run, out, value, style);
    return run.make_string(std::move(out));
}

/// A float cut to an int, where 63 bits hold it.
[[nodiscard]] inline JinjaValue cut_to_integer(JinjaRunState& run, double number) {
    if (number >= 0x1p63 || number < -0x1p63) return run.unsupported("makes an int of a float that leaves 63 bits");
    return JinjaValue::integer(static_cast<std::int64_t>(number));
}

[[nodiscard]] inline JinjaValue filter_int(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const bound(run, "int", given, {"default", "base"});
    if (bound[1] && bound.integer(run, 1, 10) != 10) return run.unsupported("reads an int of another base than 10");
    auto const otherwise = bound[0] ? *bound[0] : JinjaValue::integer(0);
    if (value.is_undefined()) return run.wrong(std::string(value.text()));
    if (value.is_integer()) return JinjaValue::integer(value.integer());
    double number = 0;
    if (value.is_string()) {
        if (auto const whole = read_integer(value.text())) return JinjaValue::integer(*whole);
        auto const real = read_real(value.text());
        if (!real) return otherwise;
        number = *real;
        bool const is_whole = value.text().find_first_of(".eEnN") == std::string_view::npos;
        if (is_whole) return run.unsupported("reads a number that leaves 63 bits");
    } else if (value.is(JinjaKind::real)) {
        number = value.real();
    } else {
        return otherwise;
    }
    if (std::isnan(number) || std::isinf(number)) {
        // Python's OverflowError of int(float) is caught only in the second try.
        if (std::isinf(number) && !value.is_string()) return run.wrong("makes an int of infinity");
        return otherwise;
    }
    return cut_to_integer(run, number);
}

[[nodiscard]] inline JinjaValue filter_float(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const bound(run, "float", given, {"default"});
    auto const otherwise = bound[0] ? *bound[0] : JinjaValue::real(0.0);
    if (value.is_undefined()) return run.wrong(std::string(value.text()));
    if (value.is_number()) return JinjaValue::real(value.real());
    auto const real = value.is_string() ? read_real(value.text()) : std::nullopt;
    return real ? JinjaValue::real(*real) : otherwise;
}

[[nodiscard]] inline JinjaValue filter_abs(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const none(run, "abs", given, {});
    if (value.is(JinjaKind::real)) return JinjaValue::real(std::fabs(value.real()));
    if (!value.is_integer()) return run.wrong("takes abs of a " + std::string(type_name(value.kind())));
    if (value.integer() == INT64_MIN) return run.unsupported("computes a number that leaves 63 bits");
    return JinjaValue::integer(value.integer() < 0 ? -value.integer() : value.integer());
}

[[nodiscard]] inline JinjaValue filter_round(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const bound(run, "round", given, {"precision", "method"});
    auto const precision = bound.integer(run, 0, 0);
    auto const method = bound.text(run, 1, "common");
    if (run.is_failed()) return {};
    if (method != "common" && method != "ceil" && method != "floor") return run.wrong("rounds by an unknown method");
    if (!value.is_number()) return run.wrong("rounds a " + std::string(type_name(value.kind())));
    if (precision < 0 || precision > 15) return run.unsupported("rounds to " + std::to_string(precision) + " digits");
    if (method != "common") {
        double const factor = std::pow(10.0, static_cast<double>(precision));
        double const scaled = value.real() * factor;
        return JinjaValue::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / factor);
    }
    if (value.is_integer()) return JinjaValue::integer(value.integer());
    if (!std::isfinite(value.real())) return value;
    char digits[400];
    std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), value.real());
    return JinjaValue::real(std::strtod(digits, nullptr));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
