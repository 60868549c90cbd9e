// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/run_state.hpp>

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// How two numbers stand to each other; unordered where one is not a number.
[[nodiscard]] inline std::partial_ordering compare_numbers(JinjaValue const& a, JinjaValue const& b) {
    if (a.is_integer() && b.is_integer()) return a.integer() <=> b.integer();
    if (a.is(JinjaKind::real) && b.is(JinjaKind::real)) return a.real() <=> b.real();
    // An int beyond 2^53 loses digits as a double, so its whole part is compared.
    if (a.is(JinjaKind::real)) return 0 <=> compare_numbers(b, a);
    double const real = b.real();
    if (std::isnan(real)) return std::partial_ordering::unordered;
    if (real >= 0x1p63) return std::partial_ordering::less;
    if (real < -0x1p63) return std::partial_ordering::greater;
    auto const whole = static_cast<std::int64_t>(real);
    if (a.integer() != whole) return a.integer() <=> whole;
    return 0.0 <=> real - std::trunc(real);
}

/// a == b, as Python has it.
[[nodiscard]] inline bool are_equal(JinjaRunState& run, JinjaValue const& a, JinjaValue const& b) {
    if (!run.step()) return false;
    if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
    if (a.is_string() && b.is_string()) {
        return a.text().size() == b.text().size() && run.take(a.text().size()) && a.text() == b.text();
    }
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
        case JinjaKind::undefined:
        case JinjaKind::none:
            return true;
        case JinjaKind::list:
        case JinjaKind::tuple:
        case JinjaKind::range: {
            if (a.items().size() != b.items().size()) return false;
            for (std::size_t i = 0; i < a.items().size(); ++i)
                if (!are_equal(run, a.items()[i], b.items()[i])) return false;
            return true;
        }
        case JinjaKind::dict: {
            if (a.members().size() != b.members().size()) return false;
            for (auto const& each : a.members()) {
                auto const found = std::find_if(b.members().begin(), b.members().end(), [&](auto const& member) {
                    return are_equal(run, member.first, each.first);
                });
                if (found == b.members().end() || !are_equal(run, each.second, found->second)) return false;
            }
            return true;
        }
        case JinjaKind::view:
            run.unsupported("compares views of dicts");
            return false;
        case JinjaKind::name_space:
        case JinjaKind::loop:
        case JinjaKind::macro:
            return a.index() == b.index();
        case JinjaKind::function:
            return a.text() == b.text();
        case JinjaKind::boolean:
        case JinjaKind::integer:
        case JinjaKind::real:
        case JinjaKind::string:
        case JinjaKind::markup:
        case JinjaKind::iterator:
        case JinjaKind::method:
            return a.shares(b);
    }
    return false;
}

/// How two values stand in order.
///
/// Errors  wrong where Python has no order for them
[[nodiscard]] inline std::partial_ordering in_order(JinjaRunState& run, JinjaValue const& a, JinjaValue const& b) {
    if (!run.step()) return std::partial_ordering::unordered;
    if (a.is_undefined() || b.is_undefined()) {
        run.wrong(std::string((a.is_undefined() ? a : b).text()));
        return std::partial_ordering::unordered;
    }
    if (a.is_number() && b.is_number()) return compare_numbers(a, b);
    if (a.is_string() && b.is_string()) {
        if (!run.take(std::min(a.text().size(), b.text().size()))) return std::partial_ordering::unordered;
        return a.text().compare(b.text()) <=> 0;
    }
    if (a.kind() == b.kind() && (a.is(JinjaKind::list) || a.is(JinjaKind::tuple))) {
        auto const count = std::min(a.items().size(), b.items().size());
        for (std::size_t i = 0; i < count; ++i) {
            if (!are_equal(run, a.items()[i], b.items()[i])) return in_order(run, a.items()[i], b.items()[i]);
        }
        return a.items().size() <=> b.items().size();
    }
    run.wrong("compares " + std::string(type_name(a.kind())) + " with " + std::string(type_name(b.kind())));
    return std::partial_ordering::unordered;
}

/// The value of a key; nothing where the dict has none.
[[nodiscard]] inline JinjaValue const* find_member(JinjaRunState& run, JinjaValue const& dict, JinjaValue const& key) {
    for (auto const& member : dict.members()) {
        if (are_equal(run, member.first, key)) return &member.second;
        if (run.is_failed()) return nullptr;
    }
    return nullptr;
}
[[nodiscard]] inline JinjaValue const* find_member(JinjaRunState& run, JinjaValue const& dict, std::string_view key) {
    if (!run.search_names(dict.members().size(), key.size())) return nullptr;
    for (auto const& member : dict.members())
        if (member.first.is_string() && member.first.text() == key) return &member.second;
    return nullptr;
}

/// Adds a member, or replaces the value of its key.
inline void put_member(JinjaRunState& run, std::vector<JinjaMember>& members, JinjaValue key, JinjaValue value) {
    if (key.is(JinjaKind::list) || key.is(JinjaKind::dict)) {
        run.wrong("has a " + std::string(type_name(key.kind())) + " as a key");
        return;
    }
    for (auto& member : members) {
        if (are_equal(run, member.first, key)) {
            member.second = std::move(value);
            return;
        }
    }
    members.emplace_back(std::move(key), std::move(value));
}

/// What a for loop would go over, as an iterator; an iterator is itself.
///
/// Errors  wrong where Python cannot iterate over it
[[nodiscard]] inline JinjaValue iterate(JinjaRunState& run, JinjaValue const& value) {
    std::vector<JinjaValue> items;
    switch (value.kind()) {
        case JinjaKind::iterator:
            return value;
        case JinjaKind::undefined:
            break;
        case JinjaKind::string:
        case JinjaKind::markup: {
            auto const text = value.text();
            if (!run.take(text.size() * sizeof(JinjaValue))) return {};
            for (std::size_t at = 0; at < text.size();) {
                std::size_t end = at + 1;
                while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
                items.emplace_back(std::string(text.substr(at, end - at)));
                at = end;
            }
            break;
        }
        case JinjaKind::list:
        case JinjaKind::tuple:
        case JinjaKind::range:
        case JinjaKind::view:
            items = value.items();
            break;
        case JinjaKind::dict:
            for (auto const& member : value.members()) items.push_back(member.first);
            break;
        case JinjaKind::none:
        case JinjaKind::boolean:
        case JinjaKind::integer:
        case JinjaKind::real:
        case JinjaKind::name_space:
        case JinjaKind::macro:
        case JinjaKind::function:
        case JinjaKind::method:
            return run.wrong("goes over a " + std::string(type_name(value.kind())));
        case JinjaKind::loop:
            return run.unsupported("goes over a loop");
    }
    return run.make_sequence(JinjaKind::iterator, std::move(items));
}

/// All that an iteration gives, or what is left of it.
[[nodiscard]] inline std::vector<JinjaValue> all_items(JinjaRunState& run, JinjaValue const& value) {
    if (value.is_sequence() && !value.is(JinjaKind::iterator)) {
        if (!run.take(value.items().size() * sizeof(JinjaValue))) return {};
        return value.items();
    }
    auto const iterator = iterate(run, value);
    if (run.is_failed()) return {};
    auto& state = iterator.sequence();
    std::vector<JinjaValue> rest(state.items.begin() + static_cast<std::ptrdiff_t>(state.at), state.items.end());
    state.at = state.items.size();
    return rest;
}

/// `item in container`.
///
/// Errors  wrong where Python refuses the question
[[nodiscard]] inline bool is_contained(JinjaRunState& run, JinjaValue const& item, JinjaValue const& container) {
    if (container.is_string()) {
        if (item.is_string())
            return run.search_text(container.text().size(), item.text().size()) &&
                   container.text().find(item.text()) != std::string_view::npos;
        run.wrong("asks whether a " + std::string(type_name(item.kind())) + " is in a str");
        return false;
    }
    if (container.is(JinjaKind::dict)) {
        if (item.is(JinjaKind::list) || item.is(JinjaKind::dict)) {
            run.wrong("asks for a " + std::string(type_name(item.kind())) + " among keys");
            return false;
        }
        return find_member(run, container, item) != nullptr;
    }
    if (container.is_sequence() && !container.is(JinjaKind::iterator)) {
        for (auto const& each : container.items())
            if (are_equal(run, each, item)) return true;
        return false;
    }
    auto const iterator = iterate(run, container);
    if (run.is_failed()) return false;
    auto& state = iterator.sequence();
    while (state.at < state.items.size() && !run.is_failed())
        if (are_equal(run, state.items[state.at++], item)) return true;
    return false;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
