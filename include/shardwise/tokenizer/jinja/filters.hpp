// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/list_filters.hpp>
#include <shardwise/tokenizer/jinja/text_filters.hpp>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

struct JinjaFilter {
    std::string_view name;
    JinjaValue (*apply)(JinjaRunState&, JinjaValue const&, JinjaArguments const&);
};

[[nodiscard]] JinjaValue filter_map(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given);

[[nodiscard]] inline JinjaValue filter_default(JinjaRunState& run, JinjaValue const& value,
                                               JinjaArguments const& given) {
    JinjaBound const bound(run, "default", given, {"default_value", "boolean"});
    bool const is_missing = value.is_undefined() || (bound.flag(1) && !is_true(value));
    if (!is_missing) return value;
    return bound[0] ? *bound[0] : run.make_string({});
}

[[nodiscard]] inline JinjaValue filter_attr(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const bound(run, "attr", given, {"name"});
    if (!bound.needs(run, "attr", 1)) return {};
    auto const name = bound.text(run, 0);
    if (value.is_undefined()) return run.wrong(std::string(value.text()));
    // Python's getattr: items do not count.
    auto found = own_attribute(run, value, name);
    return found ? *std::move(found) : missing_attribute(value, name);
}

[[nodiscard]] inline JinjaValue filter_select(JinjaRunState& run, JinjaValue const& value,
                                              JinjaArguments const& given) {
    return choose(run, value, given, true, false);
}
[[nodiscard]] inline JinjaValue filter_reject(JinjaRunState& run, JinjaValue const& value,
                                              JinjaArguments const& given) {
    return choose(run, value, given, false, false);
}
[[nodiscard]] inline JinjaValue filter_selectattr(JinjaRunState& run, JinjaValue const& value,
                                                  JinjaArguments const& given) {
    return choose(run, value, given, true, true);
}
[[nodiscard]] inline JinjaValue filter_rejectattr(JinjaRunState& run, JinjaValue const& value,
                                                  JinjaArguments const& given) {
    return choose(run, value, given, false, true);
}

inline constexpr std::array jinja_filters{JinjaFilter{"tojson", filter_tojson},
                                          JinjaFilter{"trim", filter_trim},
                                          JinjaFilter{"length", filter_length},
                                          JinjaFilter{"count", filter_length},
                                          JinjaFilter{"default", filter_default},
                                          JinjaFilter{"d", filter_default},
                                          JinjaFilter{"join", filter_join},
                                          JinjaFilter{"string", filter_string},
                                          JinjaFilter{"items", filter_items},
                                          JinjaFilter{"selectattr", filter_selectattr},
                                          JinjaFilter{"rejectattr", filter_rejectattr},
                                          JinjaFilter{"select", filter_select},
                                          JinjaFilter{"reject", filter_reject},
                                          JinjaFilter{"map", filter_map},
                                          JinjaFilter{"first", filter_first},
                                          JinjaFilter{"last", filter_last},
                                          JinjaFilter{"list", filter_list},
                                          JinjaFilter{"upper", filter_upper},
                                          JinjaFilter{"lower", filter_lower},
                                          JinjaFilter{"title", filter_title},
                                          JinjaFilter{"capitalize", filter_capitalize},
                                          JinjaFilter{"replace", filter_replace},
                                          JinjaFilter{"int", filter_int},
                                          JinjaFilter{"float", filter_float},
                                          JinjaFilter{"abs", filter_abs},
                                          JinjaFilter{"round", filter_round},
                                          JinjaFilter{"unique", filter_unique},
                                          JinjaFilter{"sort", filter_sort},
                                          JinjaFilter{"dictsort", filter_dictsort},
                                          JinjaFilter{"reverse", filter_reverse},
                                          JinjaFilter{"min", filter_min},
                                          JinjaFilter{"max", filter_max},
                                          JinjaFilter{"sum", filter_sum},
                                          JinjaFilter{"indent", filter_indent},
                                          JinjaFilter{"center", filter_center},
                                          JinjaFilter{"format", filter_format},
                                          JinjaFilter{"attr", filter_attr},
                                          JinjaFilter{"safe", filter_safe}};

[[nodiscard]] inline JinjaFilter const* find_filter(std::string_view name) {
    for (auto const& filter : jinja_filters)
        if (filter.name == name) return &filter;
    return nullptr;
}

/// value | name(arguments).
///
/// Errors  unsupported for names that are no filter; wrong where Jinja refuses the value
[[nodiscard]] inline JinjaValue apply_filter(JinjaRunState& run, std::string_view name, JinjaValue const& value,
                                             JinjaArguments const& given) {
    if (!run.step()) return {};
    auto const* const filter = find_filter(name);
    if (!filter) return run.unsupported("uses the filter " + std::string(name));
    auto made = filter->apply(run, value, given);
    return run.is_failed() ? JinjaValue{} : std::move(made);
}

/// map(attribute='name', default=...) or map('filter', arguments).
inline JinjaValue filter_map(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    std::vector<JinjaValue> made;
    // What is false gives nothing, even where nobody could iterate over it.
    if (!is_true(value)) return run.make_sequence(JinjaKind::iterator, {});
    if (given.values.empty()) {
        JinjaBound const bound(run, "map", given, {"attribute", "default"});
        if (!bound[0]) return run.wrong("maps by nothing");
        for (auto const& item : all_items(run, value)) {
            auto const has_default = bound[1] && !bound[1]->is_none();
            made.push_back(get_path(run, item, *bound[0], has_default ? bound[1] : nullptr));
            if (run.is_failed()) return {};
        }
    } else {
        auto rest = given;
        auto const name = rest.values.front();
        rest.values.erase(rest.values.begin());
        if (!name.is_string()) return run.wrong("maps by a filter that is no name");
        for (auto const& item : all_items(run, value)) {
            made.push_back(apply_filter(run, name.text(), item, rest));
            if (run.is_failed()) return {};
        }
    }
    return run.make_sequence(JinjaKind::iterator, std::move(made));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
