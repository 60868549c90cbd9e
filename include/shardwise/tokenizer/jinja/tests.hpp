// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/arguments.hpp>
#include <shardwise/tokenizer/jinja/operators.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// The test of this name over a value alone; nothing where the name is another one.
[[nodiscard]] inline std::optional<bool> plain_test(JinjaRunState& run, std::string_view name,
                                                    JinjaValue const& value) {
    using enum JinjaKind;
    auto const kind = value.kind();
    if (name == "defined") return kind != undefined;
    if (name == "undefined") return kind == undefined;
    if (name == "none") return kind == JinjaKind::none;
    if (name == "boolean") return kind == boolean;
    if (name == "true") return kind == boolean && value.flag();
    if (name == "false") return kind == boolean && !value.flag();
    if (name == "integer") return kind == integer;
    if (name == "float") return kind == real;
    if (name == "number") return value.is_number();
    if (name == "string") return value.is_string();
    if (name == "mapping") return kind == dict;
    if (name == "sequence") return value.is_string() || value.is_indexed() || kind == dict || kind == undefined;
    if (name == "iterable")
        return value.is_string() || value.is_sequence() || kind == dict || kind == undefined || kind == loop;
    if (name == "callable")
        return kind == macro || kind == function || kind == method || kind == undefined || kind == loop;
    if (name == "escaped") return kind == markup;
    if (name == "lower" || name == "upper") {
        bool has_letter = false;
        bool is_other = false;
        auto const text = text_of(run, value);
        for (auto const code : to_code_points(text)) {
            bool const is_lower = is_cased(code, name == "lower");
            has_letter = has_letter || is_lower;
            is_other = is_other || is_cased(code, name != "lower");
        }
        return has_letter && !is_other;
    }
    if (name == "odd" || name == "even") {
        auto const rest = compute(run, "%", value, JinjaValue::integer(2));
        return are_equal(run, rest, JinjaValue::integer(name == "odd" ? 1 : 0));
    }
    return std::nullopt;
}

/// Whether a value passes a test, such as `defined` or `equalto`.
///
/// Errors  unsupported for names that are no test; wrong where Python refuses the question
[[nodiscard]] inline bool passes_test(JinjaRunState& run, std::string_view name, JinjaValue const& value,
                                      JinjaArguments const& given) {
    if (!given.named.empty()) {
        run.unsupported("names an argument of the test " + std::string(name));
        return false;
    }
    auto const takes = [&](std::size_t count) {
        if (given.values.size() == count) return !run.is_failed();
        run.wrong("the test " + std::string(name) + " takes " + std::to_string(count) + " arguments");
        return false;
    };
    if (auto const plain = plain_test(run, name, value)) return takes(0) && *plain;
    auto const is = [&](std::string_view a, std::string_view b, std::string_view c = {}) {
        return name == a || name == b || (!c.empty() && name == c);
    };
    bool const is_equality = is("eq", "equalto", "==");
    bool const is_order = is("lt", "lessthan", "<") || is("gt", "greaterthan", ">") || is("le", "<=") || is("ge", ">=");
    if (!is_equality && !is_order && !is("ne", "!=") && !is("in", "sameas") && name != "divisibleby") {
        run.unsupported("uses the test " + std::string(name));
        return false;
    }
    if (!takes(1)) return false;
    auto const& other = given.values[0];
    if (is_equality) return are_equal(run, value, other);
    if (is("ne", "!=")) return !are_equal(run, value, other);
    if (name == "in") return is_contained(run, value, other);
    if (name == "divisibleby") {
        auto const rest = compute(run, "%", value, other);
        return !run.is_failed() && are_equal(run, rest, JinjaValue::integer(0));
    }
    if (name == "sameas") {
        bool const is_single = value.is_undefined() || value.is_none() || value.is(JinjaKind::boolean);
        if (value.kind() != other.kind() || is_single)
            return value.kind() == other.kind() && are_equal(run, value, other);
        if (!value.is_sequence() && !value.is(JinjaKind::dict)) run.unsupported("asks for sameness by sameas");
        return value.shares(other);
    }
    auto const order = in_order(run, value, other);
    if (run.is_failed()) return false;
    if (is("lt", "lessthan", "<")) return order < 0;
    if (is("gt", "greaterthan", ">")) return order > 0;
    return is("le", "<=") ? order <= 0 : order >= 0;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
