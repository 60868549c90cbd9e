// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/lookup.hpp>
#include <shardwise/tokenizer/jinja/tests.hpp>
#include <shardwise/tokenizer/jinja/text_methods.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Filters over lists and dicts.

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

[[nodiscard]] inline JinjaValue filter_length(JinjaRunState& run, JinjaValue const& value,
                                              JinjaArguments const& given) {
    JinjaBound const none(run, "length", given, {});
    auto const size = [](std::size_t count) { return JinjaValue::integer(static_cast<std::int64_t>(count)); };
    if (value.is_undefined()) return size(0);
    if (value.is_string()) return run.take(value.text().size()) ? size(count_code_points(value.text())) : JinjaValue{};
    if (value.is(JinjaKind::dict)) return size(value.members().size());
    if (value.is_sequence() && !value.is(JinjaKind::iterator)) return size(value.items().size());
    if (value.is(JinjaKind::loop)) return run.unsupported("takes the length of a loop");
    return run.wrong("takes the length of a " + std::string(type_name(value.kind())));
}

[[nodiscard]] inline JinjaValue filter_list(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const none(run, "list", given, {});
    return run.make_list(all_items(run, value));
}

[[nodiscard]] inline JinjaValue filter_first(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const none(run, "first", given, {});
    auto const iterator = iterate(run, value);
    if (run.is_failed()) return {};
    auto& state = iterator.sequence();
    if (state.at == state.items.size()) return JinjaValue::undefined("no first item, the sequence is empty");
    return state.items[state.at++];
}

[[nodiscard]] inline JinjaValue filter_last(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const none(run, "last", given, {});
    if (value.is(JinjaKind::iterator)) return run.wrong("takes the last of an iterator");
    auto const items = all_items(run, value);
    if (run.is_failed()) return {};
    return items.empty() ? JinjaValue::undefined("no last item, the sequence is empty") : items.back();
}

[[nodiscard]] inline JinjaValue filter_reverse(JinjaRunState& run, JinjaValue const& value,
                                               JinjaArguments const& given) {
    JinjaBound const none(run, "reverse", given, {});
    auto items = all_items(run, value);
    std::reverse(items.begin(), items.end());
    if (!value.is_string()) {
        // Python has no reversed() for an iterator, and Jinja makes a list of it.
        bool const is_list = value.is(JinjaKind::iterator);
        return run.make_sequence(is_list ? JinjaKind::list : JinjaKind::iterator, std::move(items));
    }
    std::string text;
    for (auto const& item : items) text += item.text();
    return run.make_string(std::move(text));
}

[[nodiscard]] inline JinjaValue filter_join(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const bound(run, "join", given, {"d", "attribute"});
    auto const separator = bound[0] ? text_of(run, *bound[0]) : std::string{};
    bool const has_path = bound[1] && !bound[1]->is_none();
    std::string out;
    bool is_first = true;
    for (auto const& item : all_items(run, value)) {
        if (!run.take(separator.size())) return {};
        if (!is_first) out += separator;
        is_first = false;
        out += text_of(run, has_path ? get_path(run, item, *bound[1]) : item);
    }
    return run.make_string(std::move(out));
}

[[nodiscard]] inline JinjaValue filter_items(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const none(run, "items", given, {});
    std::vector<JinjaValue> items;
    if (!value.is_undefined()) {
        if (!value.is(JinjaKind::dict)) return run.wrong("takes items of a " + std::string(type_name(value.kind())));
        for (auto const& [key, member] : value.members())
            items.push_back(run.make_sequence(JinjaKind::tuple, {key, member}));
    }
    return run.make_sequence(JinjaKind::iterator, std::move(items));
}

/// What sorting and comparing filters look at: an attribute, or the value; texts without their case unless asked.
[[nodiscard]] inline JinjaValue sort_key(JinjaRunState& run, JinjaValue const& item, JinjaValue const* path,
                                         bool has_case) {
    auto key = path && !path->is_none() ? get_path(run, item, *path) : item;
    if (has_case || !key.is_string()) return key;
    return change_case(run, key.text(), TextCase::lower);
}

/// Sorts by keys; items of equal keys keep their order.
[[nodiscard]] inline std::vector<JinjaValue> sorted(JinjaRunState& run, std::vector<JinjaMember> keyed,
                                                    bool is_reversed) {
    for (std::size_t i = 1; i < keyed.size() && !run.is_failed(); ++i) {
        for (auto k = i; k > 0; --k) {
            auto const& later = is_reversed ? keyed[k - 1].first : keyed[k].first;
            auto const& earlier = is_reversed ? keyed[k].first : keyed[k - 1].first;
            if (!(in_order(run, later, earlier) < 0)) break;
            std::swap(keyed[k], keyed[k - 1]);
        }
    }
    std::vector<JinjaValue> items;
    for (auto& [key, item] : keyed) items.push_back(std::move(item));
    return items;
}

[[nodiscard]] inline JinjaValue filter_sort(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const bound(run, "sort", given, {"reverse", "case_sensitive", "attribute"});
    if (bound[2] && bound[2]->is_string() && bound[2]->text().find(',') != std::string_view::npos)
        return run.unsupported("sorts by several attributes");
    std::vector<JinjaMember> keyed;
    for (auto& item : all_items(run, value)) {
        auto key = sort_key(run, item, bound[2], bound.flag(1));
        keyed.emplace_back(std::move(key), std::move(item));
    }
    return run.make_list(sorted(run, std::move(keyed), bound.flag(0)));
}

[[nodiscard]] inline JinjaValue filter_dictsort(JinjaRunState& run, JinjaValue const& value,
                                                JinjaArguments const& given) {
    JinjaBound const bound(run, "dictsort", given, {"case_sensitive", "by", "reverse"});
    auto const by = bound.text(run, 1, "key");
    if (by != "key" && by != "value") return run.wrong("sorts a dict by neither key nor value");
    if (value.is_undefined()) return run.wrong(std::string(value.text()));
    if (!value.is(JinjaKind::dict)) return run.wrong("sorts a " + std::string(type_name(value.kind())) + " as a dict");
    std::vector<JinjaMember> keyed;
    for (auto const& [key, member] : value.members()) {
        keyed.emplace_back(sort_key(run, by == "key" ? key : member, nullptr, bound.flag(0)),
                           run.make_sequence(JinjaKind::tuple, {key, member}));
    }
    return run.make_list(sorted(run, std::move(keyed), bound.flag(2)));
}

[[nodiscard]] inline JinjaValue filter_unique(JinjaRunState& run, JinjaValue const& value,
                                              JinjaArguments const& given) {
    JinjaBound const bound(run, "unique", given, {"case_sensitive", "attribute"});
    std::vector<JinjaValue> seen;
    std::vector<JinjaValue> kept;
    for (auto& item : all_items(run, value)) {
        auto key = sort_key(run, item, bound[1], bound.flag(0));
        if (key.is(JinjaKind::list) || key.is(JinjaKind::dict)) return run.wrong("asks for unique lists or dicts");
        bool is_known = false;
        for (auto const& other : seen) is_known = is_known || are_equal(run, other, key);
        if (run.is_failed()) return {};
        if (is_known) continue;
        seen.push_back(std::move(key));
        kept.push_back(std::move(item));
    }
    return run.make_sequence(JinjaKind::iterator, std::move(kept));
}

[[nodiscard]] inline JinjaValue extreme(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given,
                                        bool is_largest) {
    JinjaBound const bound(run, is_largest ? "max" : "min", given, {"case_sensitive", "attribute"});
    JinjaValue best = JinjaValue::undefined("no aggregated item, the sequence is empty");
    JinjaValue best_key;
    bool is_first = true;
    for (auto& item : all_items(run, value)) {
        auto key = sort_key(run, item, bound[1], bound.flag(0));
        bool const wins =
            is_first || (is_largest ? in_order(run, key, best_key) > 0 : in_order(run, key, best_key) < 0);
        if (run.is_failed()) return {};
        if (wins) best = std::move(item), best_key = std::move(key);
        is_first = false;
    }
    return best;
}
[[nodiscard]] inline JinjaValue filter_max(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    return extreme(run, value, given, true);
}
[[nodiscard]] inline JinjaValue filter_min(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    return extreme(run, value, given, false);
}

[[nodiscard]] inline JinjaValue filter_sum(JinjaRunState& run, JinjaValue const& value, JinjaArguments const& given) {
    JinjaBound const bound(run, "sum", given, {"attribute", "start"});
    auto total = bound[1] ? *bound[1] : JinjaValue::integer(0);
    if (total.is_string()) return run.wrong("sums texts");
    bool const has_path = bound[0] && !bound[0]->is_none();
    for (auto const& item : all_items(run, value))
        total = compute(run, "+", total, has_path ? get_path(run, item, *bound[0]) : item);
    return total;
}

/// select, reject, selectattr and rejectattr: the items that a test takes, or leaves.
[[nodiscard]] inline JinjaValue choose(JinjaRunState& run, JinjaValue const& value, JinjaArguments given, bool takes,
                                       bool by_attribute) {
    // What is false gives nothing, even where nobody could iterate over it.
    if (!is_true(value)) return run.make_sequence(JinjaKind::iterator, {});
    JinjaValue path;
    if (by_attribute) {
        if (given.values.empty()) return run.wrong("selects by no attribute");
        path = given.values.front();
        given.values.erase(given.values.begin());
    }
    std::string name;
    if (!given.values.empty()) {
        if (!given.values.front().is_string()) return run.wrong("selects by a test that is no name");
        name = std::string(given.values.front().text());
        given.values.erase(given.values.begin());
    }
    std::vector<JinjaValue> kept;
    for (auto& item : all_items(run, value)) {
        auto const looked_at = by_attribute ? get_path(run, item, path) : item;
        if (run.is_failed()) return {};
        bool const passes = name.empty() ? is_true(looked_at) : passes_test(run, name, looked_at, given);
        if (passes == takes) kept.push_back(std::move(item));
    }
    return run.make_sequence(JinjaKind::iterator, std::move(kept));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
