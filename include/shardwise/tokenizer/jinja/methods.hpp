// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/arguments.hpp>
#include <shardwise/tokenizer/jinja/format_text.hpp>
#include <shardwise/tokenizer/jinja/lookup.hpp>
#include <shardwise/tokenizer/jinja/text_methods.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// The part of a text between two places as Python counts them, negative ones from the end; nothing where they cross.
struct TextRange {
    std::string_view text;
    std::int64_t first = 0;
    bool is_valid = true;
};

[[nodiscard]] inline TextRange text_range(JinjaRunState& run, std::string_view text, JinjaBound const& bound,
                                          std::size_t first_argument) {
    auto const count = static_cast<std::int64_t>(count_code_points(text));
    auto const place = [&](std::size_t i, std::int64_t otherwise) {
        if (!bound[i] || bound[i]->is_none()) return otherwise;
        auto const at = bound.integer(run, i, otherwise);
        return at < 0 ? std::max<std::int64_t>(at + count, 0) : at;
    };
    auto const first = place(first_argument, 0);
    auto const end = std::min(place(first_argument + 1, count), count);
    if (first > end) return {{}, first, false};
    auto const begin = byte_of(text, static_cast<std::size_t>(first));
    auto const rest = text.substr(begin);
    return {rest.substr(0, byte_of(rest, static_cast<std::size_t>(end - first))), first, true};
}

/// startswith and endswith: of one text, or of any of a tuple.
[[nodiscard]] inline JinjaValue has_edge(JinjaRunState& run, std::string_view text, JinjaArguments const& given,
                                         bool at_start) {
    JinjaBound const bound(run, at_start ? "startswith" : "endswith", given, {"prefix", "start", "end"});
    if (!bound.needs(run, "startswith", 1)) return {};
    auto const range = text_range(run, text, bound, 1);
    auto const wanted = bound[0]->is(JinjaKind::tuple) ? bound[0]->items() : std::vector{*bound[0]};
    bool found = false;
    for (auto const& each : wanted) {
        if (!each.is_string())
            return run.wrong("asks whether a str begins or ends with a " + std::string(type_name(each.kind())));
        if (!run.take(each.text().size())) return {};
        found = found || (range.is_valid &&
                          (at_start ? range.text.starts_with(each.text()) : range.text.ends_with(each.text())));
    }
    return JinjaValue::boolean(found);
}

/// find, rfind, index, rindex and count.
[[nodiscard]] inline JinjaValue search_text(JinjaRunState& run, std::string_view text, std::string_view name,
                                            JinjaArguments const& given) {
    JinjaBound const bound(run, name, given, {"sub", "start", "end"});
    if (!bound.needs(run, name, 1)) return {};
    auto const range = text_range(run, text, bound, 1);
    auto const wanted = bound.text(run, 0);
    if (!run.search_text(range.text.size(), wanted.size())) return {};
    if (name == "count") {
        std::int64_t count = 0;
        if (wanted.empty())
            return JinjaValue::integer(range.is_valid ? static_cast<std::int64_t>(count_code_points(range.text)) + 1
                                                      : 0);
        for (auto at = range.text.find(wanted); at != std::string_view::npos;
             at = range.text.find(wanted, at + wanted.size()))
            ++count;
        return JinjaValue::integer(count);
    }
    auto const at = !range.is_valid         ? std::string_view::npos
                    : name.starts_with('r') ? range.text.rfind(wanted)
                                            : range.text.find(wanted);
    if (at != std::string_view::npos)
        return JinjaValue::integer(range.first +
                                   static_cast<std::int64_t>(count_code_points(range.text.substr(0, at))));
    if (name == "index" || name == "rindex") return run.wrong("the text that index looks for is not there");
    return JinjaValue::integer(-1);
}

/// isdigit and its like: whether a text has characters, and all are of a kind.
[[nodiscard]] inline JinjaValue has_only(JinjaRunState& run, std::string_view text, std::string_view name) {
    using enum UnicodeCategory;
    auto const all = [&](auto const& fits) {
        auto const codes = to_code_points(text);
        return JinjaValue::boolean(!codes.empty() && std::all_of(codes.begin(), codes.end(), fits));
    };
    bool const is_ascii =
        std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (name == "isascii") return JinjaValue::boolean(is_ascii);
    if (name == "isspace") return all([](char32_t code) { return is_python_space(code); });
    if (name == "isdecimal") return all([](char32_t code) { return category_of(code) == Nd; });
    if (name == "isalpha") return all([](char32_t code) { return is_in(code, unicode::letters); });
    if (name == "islower" || name == "isupper") {
        bool has_letter = false;
        for (auto const code : to_code_points(text)) {
            if (is_cased(code, name != "islower")) return JinjaValue::boolean(false);
            has_letter = has_letter || is_cased(code, name == "islower");
        }
        return JinjaValue::boolean(has_letter);
    }
    if (!is_ascii) return run.unsupported("asks for " + std::string(name) + " beyond ASCII");
    bool const takes_letters = name == "isalnum";
    return all([&](char32_t code) {
        return (code >= '0' && code <= '9') || (takes_letters && is_in(code, unicode::letters));
    });
}

[[nodiscard]] inline JinjaValue call_text_method(JinjaRunState& run, JinjaValue const& self, std::string_view name,
                                                 JinjaArguments const& given) {
    auto const text = self.text();
    if (!run.take(text.size())) return {};
    if (name == "strip" || name == "lstrip" || name == "rstrip") {
        JinjaBound const bound(run, name, given, {"chars"});
        auto const side = name == "strip" ? StripSide::both : name == "lstrip" ? StripSide::left : StripSide::right;
        if (!bound[0] || bound[0]->is_none()) return run.make_string(std::string(strip_text(text, side)));
        auto const set = bound.text(run, 0);
        if (!run.search_text(text.size(), set.size())) return {};
        return run.make_string(std::string(strip_text(text, side, set)));
    }
    if (name == "split" || name == "rsplit") {
        JinjaBound const bound(run, name, given, {"sep", "maxsplit"});
        auto const most = bound.integer(run, 1, -1);
        bool const from_end = name == "rsplit";
        if (!bound[0] || bound[0]->is_none())
            return run.is_failed() ? JinjaValue{} : split_at_blanks(run, text, most, from_end);
        auto const separator = bound.text(run, 0);
        return run.is_failed() ? JinjaValue{} : split_text(run, text, separator, most, from_end);
    }
    if (name == "startswith" || name == "endswith") return has_edge(run, text, given, name == "startswith");
    if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count")
        return search_text(run, text, name, given);
    if (name == "replace") {
        JinjaBound const bound(run, name, given, {"old", "new", "count"});
        if (!bound.needs(run, name, 2)) return {};
        auto const old = bound.text(run, 0);
        auto const by = bound.text(run, 1);
        auto const count = bound.integer(run, 2, -1);
        return run.is_failed() ? JinjaValue{} : replace_text(run, text, old, by, count);
    }
    if (name == "format") return format_braces(run, text, given.values, given.named);
    if (name == "join") {
        JinjaBound const bound(run, name, given, {"iterable"});
        if (!bound.needs(run, name, 1)) return {};
        std::string out;
        auto const items = all_items(run, *bound[0]);
        if (bound[0]->is_undefined()) return run.make_string({});
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (!items[i].is_string())
                return run.wrong("joins a " + std::string(type_name(items[i].kind())) + " as a str");
            if (!run.take(text.size() + items[i].text().size())) return {};
            (out += i > 0 ? text : std::string_view{}) += items[i].text();
        }
        return JinjaValue(std::move(out));
    }
    if (name == "splitlines") {
        JinjaBound const bound(run, name, given, {"keepends"});
        std::vector<JinjaValue> lines;
        for (auto const line : split_lines(text, bound.flag(0))) {
            if (!run.take(sizeof(JinjaValue))) return {};
            lines.emplace_back(std::string(line));
        }
        return run.make_list(std::move(lines));
    }
    if (name == "partition" || name == "rpartition") {
        JinjaBound const bound(run, name, given, {"sep"});
        if (!bound.needs(run, name, 1)) return {};
        auto const by = bound.text(run, 0);
        if (by.empty()) return run.wrong("cuts by an empty text");
        if (!run.search_text(text.size(), by.size())) return {};
        bool const is_last = name == "rpartition";
        auto const at = is_last ? text.rfind(by) : text.find(by);
        bool const has = at != std::string_view::npos;
        auto const piece = [](std::string_view part) { return JinjaValue(std::string(part)); };
        if (!has) {
            return run.make_sequence(JinjaKind::tuple,
                                     {piece(is_last ? "" : text), piece(""), piece(is_last ? text : "")});
        }
        return run.make_sequence(JinjaKind::tuple,
                                 {piece(text.substr(0, at)), piece(by), piece(text.substr(at + by.size()))});
    }
    if (name == "removeprefix" || name == "removesuffix") {
        JinjaBound const bound(run, name, given, {"affix"});
        if (!bound.needs(run, name, 1)) return {};
        auto const part = bound.text(run, 0);
        bool const is_prefix = name == "removeprefix";
        bool const has = is_prefix ? text.starts_with(part) : text.ends_with(part);
        if (!has) return self;
        return run.make_string(
            std::string(is_prefix ? text.substr(part.size()) : text.substr(0, text.size() - part.size())));
    }
    if (name == "ljust" || name == "rjust" || name == "center") {
        JinjaBound const bound(run, name, given, {"width", "fillchar"});
        if (!bound.needs(run, name, 1)) return {};
        auto const side = name == "ljust" ? TextPad::right : name == "rjust" ? TextPad::left : TextPad::both;
        return pad_text(run, text, bound.integer(run, 0, 0), bound.text(run, 1, " "), side);
    }
    if (name == "zfill") {
        JinjaBound const bound(run, name, given, {"width"});
        if (!bound.needs(run, name, 1)) return {};
        bool const has_sign = text.starts_with('-') || text.starts_with('+');
        auto const padded = pad_text(run, text.substr(has_sign ? 1 : 0), bound.integer(run, 0, 0) - (has_sign ? 1 : 0),
                                     "0", TextPad::left);
        return run.make_string(std::string(text.substr(0, has_sign ? 1 : 0)) + std::string(padded.text()));
    }
    JinjaBound const none(run, name, given, {});
    if (run.is_failed()) return {};
    if (name == "upper") return change_case(run, text, TextCase::upper);
    if (name == "lower") return change_case(run, text, TextCase::lower);
    if (name == "capitalize") return change_case(run, text, TextCase::capital);
    if (name == "title") return change_case(run, text, TextCase::title);
    return has_only(run, text, name);
}

[[nodiscard]] inline JinjaValue call_dict_method(JinjaRunState& run, JinjaValue const& self, std::string_view name,
                                                 JinjaArguments const& given) {
    if (name == "get") {
        JinjaBound const bound(run, name, given, {"key", "default"});
        if (!bound.needs(run, name, 1)) return {};
        if (!given.named.empty()) return run.wrong("get takes no named arguments");
        if (bound[0]->is(JinjaKind::list) || bound[0]->is(JinjaKind::dict))
            return run.wrong("asks a dict for a list or a dict");
        auto const* const found = find_member(run, self, *bound[0]);
        return found ? *found : bound[1] ? *bound[1] : JinjaValue::none();
    }
    JinjaBound const none(run, name, given, {});
    if (name == "copy") return self;
    std::vector<JinjaValue> items;
    for (auto const& [key, value] : self.members()) {
        if (run.is_failed()) return {};
        items.push_back(name == "keys"     ? key
                        : name == "values" ? value
                                           : run.make_sequence(JinjaKind::tuple, {key, value}));
    }
    return run.make_sequence(JinjaKind::view, std::move(items));
}

/// self.name(arguments), for what method_of calls known.
[[nodiscard]] inline JinjaValue call_method(JinjaRunState& run, JinjaValue const& self, std::string_view name,
                                            JinjaArguments const& given) {
    if (self.is_string()) return call_text_method(run, self, name, given);
    if (self.is(JinjaKind::dict)) return call_dict_method(run, self, name, given);
    if (name == "copy") return self;
    JinjaBound const bound(run, name, given, {"value"});
    if (!bound.needs(run, name, 1)) return {};
    std::int64_t count = 0;
    for (std::size_t i = 0; i < self.items().size(); ++i) {
        if (!are_equal(run, self.items()[i], *bound[0])) continue;
        if (name == "index") return JinjaValue::integer(static_cast<std::int64_t>(i));
        ++count;
    }
    if (name == "index") return run.wrong("the value that index looks for is not there");
    return JinjaValue::integer(count);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
