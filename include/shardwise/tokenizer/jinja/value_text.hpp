// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/compare.hpp>
#include <shardwise/tokenizer/jinja/python_text.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// Appends repr(value).
///
/// Errors  unsupported for what Python writes with its address
inline void append_repr(JinjaRunState& run, std::string& out, JinjaValue const& value) {
    if (!run.step()) return;
    auto const size = out.size();
    auto const items = [&](std::string_view before, std::string_view after) {
        out += before;
        for (std::size_t i = 0; i < value.items().size() && !run.is_failed(); ++i) {
            if (i > 0) out += ", ";
            append_repr(run, out, value.items()[i]);
        }
        if (value.is(JinjaKind::tuple) && value.items().size() == 1) out += ',';
        out += after;
    };
    switch (value.kind()) {
        case JinjaKind::undefined:
            out += "Undefined";
            break;
        case JinjaKind::none:
            out += "None";
            break;
        case JinjaKind::boolean:
            out += value.flag() ? "True" : "False";
            break;
        case JinjaKind::integer:
            out += std::to_string(value.integer());
            break;
        case JinjaKind::real:
            out += repr_real(value.real());
            break;
        case JinjaKind::string:
            out += repr_text(value.text());
            break;
        case JinjaKind::markup:
            (out += "Markup(") += repr_text(value.text()) + ")";
            break;
        case JinjaKind::list:
            return items("[", "]");
        case JinjaKind::tuple:
            return items("(", ")");
        case JinjaKind::dict: {
            char const* separator = "";
            out += '{';
            for (auto const& [key, member] : value.members()) {
                out += separator;
                append_repr(run, out, key);
                out += ": ";
                append_repr(run, out, member);
                separator = ", ";
                if (run.is_failed()) return;
            }
            out += '}';
            return;
        }
        case JinjaKind::range:
        case JinjaKind::view:
        case JinjaKind::iterator:
        case JinjaKind::name_space:
        case JinjaKind::loop:
        case JinjaKind::macro:
        case JinjaKind::function:
        case JinjaKind::method:
            run.unsupported("writes a " + std::string(type_name(value.kind())));
            return;
    }
    run.take(out.size() - size);
}

/// str(value), as a template prints it.
[[nodiscard]] inline std::string text_of(JinjaRunState& run, JinjaValue const& value) {
    if (value.is_undefined()) return {};
    if (value.is_string()) return run.take(value.text().size()) ? std::string(value.text()) : std::string{};
    std::string out;
    append_repr(run, out, value);
    return out;
}

/// How json.dumps writes: with transformers' defaults.
struct JsonStyle {
    bool is_ascii = false;
    bool sorts_keys = false;
    bool has_indent = false;
    std::string indent;
    std::string between_items = ", ";
    std::string after_key = ": ";
};

/// Appends a text as json.dumps quotes it.
inline void append_json_text(std::string& out, std::string_view text, bool is_ascii) {
    constexpr std::string_view digits = "0123456789abcdef";
    auto const escape = [&](char32_t unit) {
        out += "\\u";
        for (int shift = 12; shift >= 0; shift -= 4) out += digits[unit >> static_cast<unsigned>(shift) & 15U];
    };
    out += '"';
    for (std::size_t at = 0; at < text.size();) {
        auto const length = length_at(text, at);
        auto const code = utf8_code_point(text.substr(at), length);
        constexpr std::string_view plain = "\"\\\b\f\n\r\t";
        constexpr std::string_view letters = "\"\\bfnrt";
        auto const known = code < 0x80 ? plain.find(static_cast<char>(code)) : std::string_view::npos;
        if (known != std::string_view::npos) {
            (out += '\\') += letters[known];
        } else if (code >= 0x10000 && is_ascii) {
            escape(0xD800 + (code - 0x10000) / 0x400);
            escape(0xDC00 + (code - 0x10000) % 0x400);
        } else if (code < 0x20 || (is_ascii && code > 0x7E)) {
            escape(code);
        } else {
            out.append(text, at, length);
        }
        at += length;
    }
    out += '"';
}

/// Appends json.dumps(value).
///
/// Errors  wrong for what JSON does not have
inline void append_json(JinjaRunState& run, std::string& out, JinjaValue const& value, JsonStyle const& style,
                        std::size_t level = 0) {
    if (!run.step()) return;
    auto const size = out.size();
    auto const line = [&](std::size_t depth) {
        if (!style.has_indent || !run.take(depth * style.indent.size())) return;
        out += '\n';
        for (std::size_t i = 0; i < depth; ++i) out += style.indent;
    };
    auto const real = [](double number) {
        if (std::isnan(number)) return std::string("NaN");
        return std::isinf(number) ? std::string(number < 0 ? "-Infinity" : "Infinity") : repr_real(number);
    };
    switch (value.kind()) {
        case JinjaKind::none:
            out += "null";
            break;
        case JinjaKind::boolean:
            out += value.flag() ? "true" : "false";
            break;
        case JinjaKind::integer:
            out += std::to_string(value.integer());
            break;
        case JinjaKind::real:
            out += real(value.real());
            break;
        case JinjaKind::string:
        case JinjaKind::markup:
            append_json_text(out, value.text(), style.is_ascii);
            break;
        case JinjaKind::list:
        case JinjaKind::tuple: {
            out += '[';
            for (std::size_t i = 0; i < value.items().size() && !run.is_failed(); ++i) {
                if (i > 0) out += style.between_items;
                line(level + 1);
                append_json(run, out, value.items()[i], style, level + 1);
            }
            if (!value.items().empty()) line(level);
            out += ']';
            return;
        }
        case JinjaKind::dict: {
            auto members = value.members();
            if (!run.take(members.size() * sizeof(JinjaMember))) return;
            for (std::size_t i = 1; style.sorts_keys && i < members.size(); ++i) {
                for (auto k = i; k > 0 && in_order(run, members[k].first, members[k - 1].first) < 0; --k)
                    std::swap(members[k], members[k - 1]);
            }
            out += '{';
            for (std::size_t i = 0; i < members.size() && !run.is_failed(); ++i) {
                auto const& key = members[i].first;
                if (i > 0) out += style.between_items;
                line(level + 1);
                if (key.is_string()) {
                    append_json_text(out, key.text(), style.is_ascii);
                } else if (key.is_number() || key.is_none()) {
                    out += '"';
                    append_json(run, out, key, style, level);
                    out += '"';
                } else {
                    run.wrong("writes a " + std::string(type_name(key.kind())) + " as a key of JSON");
                }
                out += style.after_key;
                append_json(run, out, members[i].second, style, level + 1);
            }
            if (!members.empty()) line(level);
            out += '}';
            return;
        }
        case JinjaKind::undefined:
        case JinjaKind::range:
        case JinjaKind::view:
        case JinjaKind::iterator:
        case JinjaKind::name_space:
        case JinjaKind::loop:
        case JinjaKind::macro:
        case JinjaKind::function:
        case JinjaKind::method:
            run.wrong("writes as JSON what it does not have: " + std::string(type_name(value.kind())));
            return;
    }
    run.take(out.size() - size);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
