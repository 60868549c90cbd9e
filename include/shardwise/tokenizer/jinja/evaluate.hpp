// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/interpreter.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// The value of a name: what a part around it has set, what was given, a function; undefined where nothing has it.
inline JinjaValue JinjaInterpreter::look_up(std::string_view name) {
    for (auto const* scope = scope_.get(); scope; scope = scope->parent.get()) {
        if (!run_.search_names(scope->names.size(), name.size())) return {};
        for (auto const& [key, value] : scope->names)
            if (key == name) return value;
    }
    for (auto const& [key, value] : globals_)
        if (key == name) return value;
    for (auto const function : jinja_functions)
        if (function == name) return JinjaValue(std::string(name), JinjaKind::function);
    return JinjaValue::undefined("'" + std::string(name) + "' is undefined");
}

inline JinjaValue JinjaInterpreter::attribute(JinjaValue const& value, std::string_view name) {
    if (value.is(JinjaKind::loop)) return loop_attribute(value.index(), name);
    if (value.is(JinjaKind::macro) && name == "name") return JinjaValue(std::string(macros_[value.index()].name));
    if (value.is(JinjaKind::macro) && !name.starts_with('_'))
        return run_.unsupported("asks a macro for " + std::string(name));
    return get_attribute(run_, value, name);
}

inline JinjaValue JinjaInterpreter::evaluate(JinjaNode const& node) {
    JinjaRunState::Level const level(run_);
    if (!run_.step()) return {};
    run_.at_line(node.line);
    auto const& parts = node.children;
    switch (node.kind) {
        case JinjaNodeKind::constant:
            return node.constant;
        case JinjaNodeKind::name:
            return look_up(node.text);
        case JinjaNodeKind::attribute:
            return attribute(evaluate(*parts[0]), node.text);
        case JinjaNodeKind::item: {
            auto const value = evaluate(*parts[0]);
            auto const key = evaluate(*parts[1]);
            if (value.is(JinjaKind::loop) && key.is_string()) return loop_attribute(value.index(), key.text());
            return run_.is_failed() ? JinjaValue{} : get_item(run_, value, key);
        }
        case JinjaNodeKind::slice:
            return evaluate_slice(node);
        case JinjaNodeKind::call:
            return evaluate_call(node, nullptr);
        case JinjaNodeKind::filter:
            return evaluate_filter(node);
        case JinjaNodeKind::test: {
            // Jinja finds an unknown test, as an unknown filter, where it reads a template; here it is found where it runs.
            auto const value = evaluate(*parts[0]);
            auto const given = arguments(node);
            if (run_.is_failed()) return {};
            return JinjaValue::boolean(passes_test(run_, node.text, value, given));
        }
        case JinjaNodeKind::negative:
        case JinjaNodeKind::positive:
            return evaluate_sign(node);
        case JinjaNodeKind::binary: {
            auto const left = evaluate(*parts[0]);
            auto const right = evaluate(*parts[1]);
            return compute(run_, node.text, left, right);
        }
        case JinjaNodeKind::concat:
            return evaluate_concat(node);
        case JinjaNodeKind::compare:
            return evaluate_compare(node);
        case JinjaNodeKind::logical_and: {
            auto left = evaluate(*parts[0]);
            return is_true(left) ? evaluate(*parts[1]) : left;
        }
        case JinjaNodeKind::logical_or: {
            auto left = evaluate(*parts[0]);
            return is_true(left) ? left : evaluate(*parts[1]);
        }
        case JinjaNodeKind::logical_not:
            return JinjaValue::boolean(!is_true(evaluate(*parts[0])));
        case JinjaNodeKind::conditional:
            if (is_true(evaluate(*parts[0]))) return evaluate(*parts[1]);
            if (parts[2]) return evaluate(*parts[2]);
            return JinjaValue::undefined("an if without else is false");
        case JinjaNodeKind::list:
        case JinjaNodeKind::tuple:
        case JinjaNodeKind::dict:
            return evaluate_container(node);
        case JinjaNodeKind::data:
        case JinjaNodeKind::print:
        case JinjaNodeKind::block:
        case JinjaNodeKind::loop:
        case JinjaNodeKind::branch:
        case JinjaNodeKind::assign:
        case JinjaNodeKind::assign_block:
        case JinjaNodeKind::attribute_target:
        case JinjaNodeKind::macro:
        case JinjaNodeKind::call_block:
        case JinjaNodeKind::filter_block:
        case JinjaNodeKind::with:
        case JinjaNodeKind::generation:
        case JinjaNodeKind::leave:
        case JinjaNodeKind::next:
            break;
    }
    return run_.wrong("has a statement in the place of an expression");
}

inline JinjaValue JinjaInterpreter::evaluate_container(JinjaNode const& node) {
    std::vector<JinjaValue> items;
    std::vector<JinjaMember> members;
    bool const is_dict = node.kind == JinjaNodeKind::dict;
    for (std::size_t i = 0; i < node.children.size() && !run_.is_failed(); ++i) {
        auto value = evaluate(*node.children[i]);
        if (!is_dict) {
            items.push_back(std::move(value));
        } else {
            auto member = evaluate(*node.children[++i]);
            if (!run_.is_failed()) put_member(run_, members, std::move(value), std::move(member));
        }
    }
    if (run_.is_failed()) return {};
    if (is_dict) return run_.make_dict(std::move(members));
    return run_.make_sequence(node.kind == JinjaNodeKind::list ? JinjaKind::list : JinjaKind::tuple, std::move(items));
}

inline JinjaValue JinjaInterpreter::evaluate_concat(JinjaNode const& node) {
    std::string text;
    for (auto const& part : node.children) {
        text += text_of(run_, evaluate(*part));
        if (run_.is_failed()) return {};
    }
    return run_.make_string(std::move(text));
}

inline JinjaValue JinjaInterpreter::evaluate_compare(JinjaNode const& node) {
    auto left = evaluate(*node.children[0]);
    for (std::size_t i = 0; i < node.names.size(); ++i) {
        auto right = evaluate(*node.children[i + 1]);
        if (run_.is_failed()) return {};
        std::string_view const sign = node.names[i];
        bool holds = false;
        if (sign == "==" || sign == "!=") {
            holds = are_equal(run_, left, right) == (sign == "==");
        } else if (sign == "in" || sign == "not in") {
            holds = is_contained(run_, left, right) == (sign == "in");
        } else {
            auto const order = in_order(run_, left, right);
            holds = sign == "<" ? order < 0 : sign == ">" ? order > 0 : sign == "<=" ? order <= 0 : order >= 0;
        }
        if (run_.is_failed()) return {};
        if (!holds) return JinjaValue::boolean(false);
        left = std::move(right);
    }
    return JinjaValue::boolean(true);
}

inline JinjaValue JinjaInterpreter::evaluate_slice(JinjaNode const& node) {
    auto const part = [&](std::size_t i) {
        return node.children[i] ? evaluate(*node.children[i]) : JinjaValue::none();
    };
    auto const value = part(0);
    auto const first = part(1);
    auto const end = part(2);
    auto const step = part(3);
    return run_.is_failed() ? JinjaValue{} : slice(run_, value, first, end, step);
}

inline JinjaValue JinjaInterpreter::evaluate_sign(JinjaNode const& node) {
    auto const value = evaluate(*node.children[0]);
    if (run_.is_failed()) return {};
    if (value.is_undefined()) return run_.wrong(std::string(value.text()));
    if (!value.is_number()) return run_.wrong("has a sign before a " + std::string(type_name(value.kind())));
    bool const is_negative = node.kind == JinjaNodeKind::negative;
    if (value.is(JinjaKind::real)) return JinjaValue::real(is_negative ? -value.real() : value.real());
    return is_negative ? compute(run_, "-", JinjaValue::integer(0), value) : JinjaValue::integer(value.integer());
}

inline JinjaArguments JinjaInterpreter::arguments(JinjaNode const& node) {
    JinjaArguments given;
    auto const count = node.children.size() - node.names.size();
    for (std::size_t i = 1; i < node.children.size() && !run_.is_failed(); ++i) {
        auto value = evaluate(*node.children[i]);
        if (i < count)
            given.values.push_back(std::move(value));
        else
            given.named.emplace_back(node.names[i - count], std::move(value));
    }
    return given;
}

inline JinjaValue JinjaInterpreter::evaluate_filter(JinjaNode const& node) {
    auto const value = node.children[0] ? evaluate(*node.children[0]) : std::exchange(piped_, {});
    auto const given = arguments(node);
    run_.at_line(node.line);
    return run_.is_failed() ? JinjaValue{} : apply_filter(run_, node.text, value, given);
}

inline JinjaValue JinjaInterpreter::evaluate_call(JinjaNode const& node, JinjaValue const* caller) {
    auto const callee = evaluate(*node.children[0]);
    auto given = arguments(node);
    if (caller) given.named.emplace_back("caller", *caller);
    run_.at_line(node.line);
    return run_.is_failed() ? JinjaValue{} : call_value(callee, given);
}

inline JinjaValue JinjaInterpreter::call_value(JinjaValue const& callee, JinjaArguments const& given) {
    switch (callee.kind()) {
        case JinjaKind::macro:
            return call_macro(callee.index(), given);
        case JinjaKind::function:
            return call_function(run_, callee.text(), given, now_);
        case JinjaKind::method: {
            auto const& self = callee.self();
            if (self.is(JinjaKind::loop)) return call_loop(self.index(), callee.method_name(), given);
            return call_method(run_, self, callee.method_name(), given);
        }
        case JinjaKind::undefined:
            return run_.wrong(std::string(callee.text()));
        case JinjaKind::loop:
            return run_.unsupported("calls a loop, which recursive ones have");
        case JinjaKind::none:
        case JinjaKind::boolean:
        case JinjaKind::integer:
        case JinjaKind::real:
        case JinjaKind::string:
        case JinjaKind::markup:
        case JinjaKind::list:
        case JinjaKind::tuple:
        case JinjaKind::range:
        case JinjaKind::view:
        case JinjaKind::iterator:
        case JinjaKind::dict:
        case JinjaKind::name_space:
            break;
    }
    return run_.wrong("calls a " + std::string(type_name(callee.kind())));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
