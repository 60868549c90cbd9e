// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/value.hpp>
#include <shardwise/tokenizer/jinja/run_state.hpp>
#include <shardwise/tokenizer/utf8.hpp>

#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// A value of a template as a JSON value says. What Python would take and this does not (integers beyond 63 bits) fails `run`.
[[nodiscard]] inline JinjaValue json_value(JinjaRunState& run, JsonValue const& json) {
    switch (json.kind()) {
        case JsonKind::null:
            return JinjaValue::none();
        case JsonKind::boolean:
            return JinjaValue::boolean(json.boolean().value_or(false));
        case JsonKind::integer:
            return JinjaValue::integer(json.integer().value_or(0));
        case JsonKind::unsigned_integer:
            return run.unsupported("is given an integer beyond 63 bits");
        case JsonKind::real:
            return JinjaValue::real(json.real().value_or(0.0));
        case JsonKind::string:
            return run.make_string(to_valid_utf8(json.string().value_or(std::string_view{})));
        case JsonKind::array: {
            std::vector<JinjaValue> items;
            for (auto const item : json) items.push_back(json_value(run, item));
            return run.make_list(std::move(items));
        }
        case JsonKind::object: {
            std::vector<JinjaMember> members;
            for (auto const item : json)
                members.emplace_back(JinjaValue(to_valid_utf8(item.key())), json_value(run, item));
            return run.make_dict(std::move(members));
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
