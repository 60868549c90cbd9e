// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/arguments.hpp>
#include <shardwise/tokenizer/jinja/compare.hpp>
#include <shardwise/tokenizer/jinja/value_text.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// Functions that every template finds; of the last three this interpreter knows only the names.
inline constexpr std::array<std::string_view, 8> jinja_functions{
    "range", "dict", "namespace", "raise_exception", "strftime_now", "lipsum", "cycler", "joiner"};

/// range(end), range(first, end), range(first, end, step).
///
/// Errors  wrong beyond 100000 numbers, which transformers' sandbox refuses too
[[nodiscard]] inline JinjaValue call_range(JinjaRunState& run, JinjaArguments const& given) {
    if (!given.named.empty() || given.values.empty() || given.values.size() > 3)
        return run.wrong("range takes one to three numbers");
    for (auto const& value : given.values) {
        if (value.is_undefined()) return run.wrong(std::string(value.text()));
        if (!value.is_integer()) return run.wrong("range takes a " + std::string(type_name(value.kind())));
    }
    bool const has_first = given.values.size() > 1;
    auto const first = has_first ? given.values[0].integer() : 0;
    auto const end = given.values[has_first ? 1 : 0].integer();
    auto const step = given.values.size() > 2 ? given.values[2].integer() : 1;
    if (step == 0) return run.wrong("range takes steps of 0");
    constexpr std::size_t most = 100'000;
    std::vector<JinjaValue> items;
    for (auto at = first; step > 0 ? at < end : at > end;) {
        if (items.size() == most) return run.wrong("range has more than 100000 numbers");
        items.push_back(JinjaValue::integer(at));
        if (__builtin_add_overflow(at, step, &at)) break;
    }
    return run.make_sequence(JinjaKind::range, std::move(items));
}

/// The members that dict(...) and namespace(...) begin with: of a dict or of pairs, and the named ones.
[[nodiscard]] inline std::vector<JinjaMember> collect_members(JinjaRunState& run, std::string_view function,
                                                              JinjaArguments const& given) {
    std::vector<JinjaMember> members;
    if (given.values.size() > 1) run.wrong(std::string(function) + " takes one value at most");
    if (!given.values.empty() && given.values[0].is(JinjaKind::dict)) {
        members = given.values[0].members();
    } else if (!given.values.empty()) {
        for (auto const& item : all_items(run, given.values[0])) {
            auto parts = all_items(run, item);
            if (parts.size() != 2) run.wrong(std::string(function) + " is made of what are no pairs");
            if (run.is_failed()) break;
            put_member(run, members, std::move(parts[0]), std::move(parts[1]));
        }
    }
    for (auto const& [name, value] : given.named) put_member(run, members, JinjaValue(name), value);
    return members;
}

[[nodiscard]] inline JinjaValue call_name_space(JinjaRunState& run, JinjaArguments const& given) {
    JinjaRunState::Members members;
    for (auto& [key, value] : collect_members(run, "namespace", given)) {
        if (!key.is_string()) return run.unsupported("makes a namespace with a key that is no name");
        members.emplace_back(std::string(key.text()), std::move(value));
    }
    return run.make_name_space(std::move(members));
}

/// strftime_now(format), as the C library writes the given time.
///
/// Errors  unsupported without a time, and for directives that depend on the place
[[nodiscard]] inline JinjaValue call_strftime(JinjaRunState& run, JinjaArguments const& given,
                                              std::optional<std::tm> const& now) {
    JinjaBound const bound(run, "strftime_now", given, {"format"});
    if (!bound.needs(run, "strftime_now", 1)) return {};
    auto const format = bound.text(run, 0);
    if (run.is_failed()) return {};
    if (!now) return run.unsupported("asks for the date, and none is given");
    if (format.size() > 200) return run.unsupported("asks for the date in a long form");
    for (std::size_t i = 0; i < format.size(); ++i) {
        if (format[i] != '%') continue;
        if (++i < format.size() && format[i] == '-') ++i;
        bool const is_known =
            i < format.size() &&
            std::string_view("aAbBcdDeFHIjmMnpRStTuUVwWxXyYG%").find(format[i]) != std::string_view::npos;
        if (!is_known) return run.unsupported("asks for the date as " + std::string(format));
    }
    // A byte before the date tells an empty one from one that does not fit.
    auto const marked = " " + std::string(format);
    char written[4096];
    auto const length = std::strftime(written, sizeof written, marked.c_str(), &*now);
    if (length == 0) return run.unsupported("asks for the date in a long form");
    return run.make_string(to_valid_utf8(std::string_view(written + 1, length - 1)));
}

/// One of jinja_functions.
///
/// Errors  refused for raise_exception; unsupported for what this interpreter has not
[[nodiscard]] inline JinjaValue call_function(JinjaRunState& run, std::string_view name, JinjaArguments const& given,
                                              std::optional<std::tm> const& now) {
    if (name == "range") return call_range(run, given);
    if (name == "dict") return run.make_dict(collect_members(run, name, given));
    if (name == "namespace") return call_name_space(run, given);
    if (name == "strftime_now") return call_strftime(run, given, now);
    if (name != "raise_exception") return run.unsupported("uses the function " + std::string(name));
    JinjaBound const bound(run, name, given, {"message"});
    if (!bound.needs(run, name, 1)) return {};
    auto text = text_of(run, *bound[0]);
    return run.fail(JinjaFault::refused, text.empty() ? "gives no reason" : std::move(text));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
