// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/interpreter.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

inline void JinjaInterpreter::print(JinjaValue const& value) {
    if (value.is_string()) {
        if (run_.take(value.text().size())) output_ += value.text();
        return;
    }
    output_ += text_of(run_, value);
}

inline JinjaInterpreter::Flow JinjaInterpreter::execute_all(JinjaNode const& block) {
    for (auto const& statement : block.children) {
        auto const flow = execute(*statement);
        if (flow != Flow::on || run_.is_failed()) return flow;
    }
    return Flow::on;
}

inline JinjaInterpreter::Flow JinjaInterpreter::execute_scoped(JinjaNode const& block) {
    return within(scope_, [&] { return execute_all(block); });
}

inline JinjaInterpreter::Flow JinjaInterpreter::execute(JinjaNode const& node) {
    JinjaRunState::Level const level(run_);
    if (!run_.step()) return Flow::on;
    run_.at_line(node.line);
    switch (node.kind) {
        case JinjaNodeKind::data:
            if (run_.take(node.text.size())) output_ += node.text;
            return Flow::on;
        case JinjaNodeKind::print:
            for (auto const& value : node.children) print(evaluate(*value));
            return Flow::on;
        case JinjaNodeKind::block:
            return execute_all(node);
        case JinjaNodeKind::loop:
            return execute_loop(node);
        case JinjaNodeKind::branch:
            return execute_branch(node);
        case JinjaNodeKind::assign:
            assign(*node.children[0], evaluate(*node.children[1]));
            return Flow::on;
        case JinjaNodeKind::assign_block:
            return execute_assign_block(node);
        case JinjaNodeKind::macro:
            scope_->set(node.text, make_macro(node, node.text, 0));
            return Flow::on;
        case JinjaNodeKind::call_block:
            execute_call_block(node);
            return Flow::on;
        case JinjaNodeKind::filter_block:
            return execute_filter_block(node);
        case JinjaNodeKind::with:
            return execute_with(node);
        case JinjaNodeKind::generation:
            return execute_generation(node);
        case JinjaNodeKind::leave:
            return Flow::leave;
        case JinjaNodeKind::next:
            return Flow::next;
        case JinjaNodeKind::constant:
        case JinjaNodeKind::name:
        case JinjaNodeKind::attribute:
        case JinjaNodeKind::item:
        case JinjaNodeKind::slice:
        case JinjaNodeKind::call:
        case JinjaNodeKind::filter:
        case JinjaNodeKind::test:
        case JinjaNodeKind::negative:
        case JinjaNodeKind::positive:
        case JinjaNodeKind::binary:
        case JinjaNodeKind::concat:
        case JinjaNodeKind::compare:
        case JinjaNodeKind::logical_and:
        case JinjaNodeKind::logical_or:
        case JinjaNodeKind::logical_not:
        case JinjaNodeKind::conditional:
        case JinjaNodeKind::list:
        case JinjaNodeKind::tuple:
        case JinjaNodeKind::dict:
        case JinjaNodeKind::attribute_target:
            break;
    }
    run_.wrong("has an expression in the place of a statement");
    return Flow::on;
}

inline JinjaInterpreter::Flow JinjaInterpreter::execute_branch(JinjaNode const& node) {
    std::size_t i = 0;
    for (; i + 1 < node.children.size(); i += 2) {
        bool const holds = is_true(evaluate(*node.children[i]));
        if (run_.is_failed()) return Flow::on;
        if (holds) return execute_all(*node.children[i + 1]);
    }
    return i < node.children.size() ? execute_all(*node.children[i]) : Flow::on;
}

inline JinjaInterpreter::Flow JinjaInterpreter::execute_with(JinjaNode const& node) {
    // The values are those around the block: none sees another one's name.
    std::vector<JinjaValue> values;
    for (std::size_t i = 2; i < node.children.size(); i += 2) values.push_back(evaluate(*node.children[i]));
    return within(scope_, [&] {
        for (std::size_t i = 0; i < values.size(); ++i) assign(*node.children[1 + 2 * i], std::move(values[i]));
        return run_.is_failed() ? Flow::on : execute_all(*node.children[0]);
    });
}

inline JinjaInterpreter::Flow JinjaInterpreter::execute_assign_block(JinjaNode const& node) {
    auto flow = Flow::on;
    auto text = captured([&] { flow = execute_scoped(*node.children[2]); });
    if (flow != Flow::on || run_.is_failed()) return flow;
    auto value = run_.make_string(std::move(text));
    if (node.children[1]) {
        piped_ = std::move(value);
        value = evaluate(*node.children[1]);
    }
    assign(*node.children[0], std::move(value));
    return flow;
}

inline JinjaInterpreter::Flow JinjaInterpreter::execute_generation(JinjaNode const& node) {
    auto const begin = output_.size();
    auto const flow = execute_scoped(*node.children[0]);
    if (captures_ > 0)
        has_lost_spans_ = true;
    else
        spans_.push_back({begin, output_.size()});
    return flow;
}

inline JinjaInterpreter::Flow JinjaInterpreter::execute_filter_block(JinjaNode const& node) {
    auto flow = Flow::on;
    auto text = captured([&] { flow = execute_scoped(*node.children[1]); });
    if (flow != Flow::on || run_.is_failed()) return flow;
    piped_ = run_.make_string(std::move(text));
    print(evaluate(*node.children[0]));
    return flow;
}

inline void JinjaInterpreter::assign(JinjaNode const& target, JinjaValue value) {
    if (run_.is_failed()) return;
    if (target.kind == JinjaNodeKind::name) {
        if (run_.search_names(scope_->names.size(), target.text.size())) scope_->set(target.text, std::move(value));
        return;
    }
    if (target.kind == JinjaNodeKind::attribute_target) {
        auto const object = look_up(target.text);
        if (object.is_undefined()) {
            run_.wrong(std::string(object.text()));
        } else if (!object.is(JinjaKind::name_space)) {
            run_.wrong("sets an attribute of what is no namespace: " + target.text);
        } else {
            auto& members = run_.name_space(object.index());
            if (!run_.search_names(members.size(), target.names[0].size())) return;
            auto const found = std::find_if(members.begin(), members.end(),
                                            [&](auto const& member) { return member.first == target.names[0]; });
            if (found != members.end())
                found->second = std::move(value);
            else if (run_.take(sizeof *members.data()))
                members.emplace_back(target.names[0], std::move(value));
        }
        return;
    }
    auto const items = all_items(run_, value);
    if (!run_.is_failed() && items.size() != target.children.size()) {
        run_.wrong("takes " + std::to_string(items.size()) + " values apart into " +
                   std::to_string(target.children.size()) + " names");
    }
    for (std::size_t i = 0; i < items.size() && !run_.is_failed(); ++i) assign(*target.children[i], items[i]);
}

inline JinjaValue JinjaInterpreter::make_macro(JinjaNode const& node, std::string_view name, std::size_t body) {
    if (!run_.take(sizeof(JinjaMacro) + sizeof(JinjaScope))) return {};
    macros_.push_back({name, &node, body, scope_});
    return JinjaValue::numbered(JinjaKind::macro, macros_.size() - 1);
}

inline void JinjaInterpreter::execute_call_block(JinjaNode const& node) {
    auto const caller = make_macro(node, "caller", 1);
    if (run_.is_failed()) return;
    print(evaluate_call(*node.children[0], &caller));
}

/// What a macro writes for these arguments.
///
/// Errors  wrong for arguments that it does not take
inline JinjaValue JinjaInterpreter::call_macro(std::size_t index, JinjaArguments const& given) {
    auto const macro = macros_[index];
    auto const& node = *macro.node;
    auto const& body = *node.children[macro.body];
    auto const defaults = node.children.size() - macro.body - 1;
    auto const first_default = node.names.size() - defaults;
    bool const takes_rest = node.reads_varargs;
    bool const takes_named = node.reads_kwargs;
    bool const takes_caller = node.reads_caller;
    auto const is_parameter = [&](std::string_view name) {
        return std::find(node.names.begin(), node.names.end(), name) != node.names.end();
    };
    if (given.values.size() > node.names.size() && !takes_rest)
        return run_.wrong("macro " + std::string(macro.name) + " takes at most " + std::to_string(node.names.size()) +
                          " arguments");
    std::vector<JinjaMember> others;
    for (auto const& [name, value] : given.named) {
        auto const place =
            static_cast<std::size_t>(std::find(node.names.begin(), node.names.end(), name) - node.names.begin());
        if (place < node.names.size() && place >= given.values.size()) continue;
        if (name == "caller" && takes_caller && !is_parameter(name)) continue;
        if (!takes_named) return run_.wrong("macro " + std::string(macro.name) + " does not take the argument " + name);
        others.emplace_back(JinjaValue(name), value);
    }
    return within(macro.around, [&] {
        for (std::size_t i = 0; i < node.names.size() && !run_.is_failed(); ++i) {
            auto const& name = node.names[i];
            auto const* const named = given.find(name);
            scope_->set(name, i < given.values.size() ? given.values[i]
                              : named                 ? *named
                              : i >= first_default
                                  ? evaluate(*node.children[macro.body + 1 + i - first_default])
                                  : JinjaValue::undefined("parameter '" + name + "' was not provided"));
        }
        if (takes_caller && !is_parameter("caller")) {
            auto const* const caller = given.find("caller");
            scope_->set("caller", caller ? *caller : JinjaValue::undefined("no caller is given"));
        }
        if (takes_named) scope_->set("kwargs", run_.make_dict(std::move(others)));
        if (takes_rest) {
            auto const known = std::min(node.names.size(), given.values.size());
            scope_->set("varargs",
                        run_.make_sequence(JinjaKind::tuple, {given.values.begin() + static_cast<std::ptrdiff_t>(known),
                                                              given.values.end()}));
        }
        auto text = captured([&] { execute_all(body); });
        return run_.make_string(std::move(text));
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
