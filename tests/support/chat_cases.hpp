// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/value.hpp>
#include <shardwise/tokenizer/chat_template.hpp>
#include <shardwise/tokenizer/jinja/json_value.hpp>

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// The names that a case of tests/golden/chat gives to its template.
inline detail::jinja::JinjaGlobals template_globals(JsonValue const& context) {
    detail::jinja::JinjaRunState run({});
    detail::jinja::JinjaGlobals globals;
    for (auto const member : context)
        globals.emplace_back(std::string(member.key()), detail::jinja::json_value(run, member));
    for (auto const* const name : {"tools", "documents"}) {
        if (!context.find(name)) globals.emplace_back(name, detail::jinja::JinjaValue::none());
    }
    return globals;
}

/// Tuesday, 2026-11-24 03:20:05, the date of tests/golden/chat.
inline std::tm golden_date() {
    std::tm date{};
    date.tm_year = 126;
    date.tm_mon = 10;
    date.tm_mday = 24;
    date.tm_hour = 3;
    date.tm_min = 20;
    date.tm_sec = 5;
    date.tm_wday = 2;
    date.tm_yday = 327;
    return date;
}

/// What is wrong about a template's text for a context; empty where it is what `wanted` says: its "text", or an error where it
/// has an "error".
inline std::string chat_mismatch(ChatTemplate const* layout, Error const* fault, JsonValue const& context,
                                 JsonValue const& wanted) {
    auto const text = wanted.find("text");
    if (!layout && text) return fault->message();
    if (!layout) return {};
    auto const made = layout->render_with(template_globals(context), golden_date(), {});
    if (text && !made) return made.error().message();
    if (text)
        return *made == text->string() ? std::string{}
                                       : "gives " + escaped(*made) + " instead of " + escaped(*text->string());
    if (made) return "gives " + escaped(*made) + " instead of an error";
    if (wanted.find("error")->string() != "refused") return {};
    auto const reason = std::string(wanted.find("reason")->string().value_or(""));
    bool const is_said = made.error().code() == ErrorCode::invalid_argument &&
                         made.error().message().find(escaped(reason.substr(0, 100))) != std::string::npos;
    return is_said ? std::string{} : made.error().message();
}

}  // namespace shardwise::testing
