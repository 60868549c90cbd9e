// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/interpreter.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// The next item that the loop's condition takes, which is asked only now: the body may change what it reads.
inline std::optional<JinjaValue> JinjaInterpreter::next_item(JinjaLoop& loop) {
    if (!loop.source.is_sequence()) return std::nullopt;
    auto& state = loop.source.sequence();
    auto& at = loop.source.is(JinjaKind::iterator) ? state.at : loop.at;
    while (at < state.items.size() && run_.step()) {
        auto item = state.items[at++];
        auto const& condition = loop.node->children[2];
        if (!condition) return item;
        bool const holds = within(loop.around, [&] {
            assign(*loop.node->children[0], item);
            return is_true(evaluate(*condition));
        });
        if (run_.is_failed()) return std::nullopt;
        if (holds) return item;
    }
    return std::nullopt;
}

/// Whether an item follows the one at hand.
inline bool JinjaInterpreter::look_ahead(JinjaLoop& loop) {
    if (!loop.ahead.empty()) return true;
    auto item = next_item(loop);
    if (!item) return false;
    loop.ahead.push_back(*std::move(item));
    return true;
}

inline std::int64_t JinjaInterpreter::length_of(JinjaLoop& loop) {
    if (!loop.length) {
        while (auto item = next_item(loop)) loop.ahead.push_back(*std::move(item));
        loop.length = loop.index + 1 + static_cast<std::int64_t>(loop.ahead.size());
    }
    return *loop.length;
}

inline JinjaInterpreter::Flow JinjaInterpreter::execute_loop(JinjaNode const& node) {
    auto const iterable = evaluate(*node.children[1]);
    if (run_.is_failed() || !run_.take(sizeof(JinjaLoop))) return Flow::on;
    auto source = iterable.is_sequence() ? iterable : iterate(run_, iterable);
    if (run_.is_failed()) return Flow::on;
    loops_.emplace_back();
    auto const index = loops_.size() - 1;
    auto& loop = loops_.back();
    loop.node = &node;
    loop.around = scope_;
    if (!node.children[2] && !iterable.is(JinjaKind::iterator))
        loop.length = static_cast<std::int64_t>(source.items().size());
    loop.source = std::move(source);
    auto const self = JinjaValue::numbered(JinjaKind::loop, index);
    while (run_.step(1 + loop.ahead.size() / 8) && look_ahead(loop)) {
        if (loop.index >= 0) loop.previous = std::move(loop.current);
        loop.current = std::move(loop.ahead.front());
        loop.ahead.erase(loop.ahead.begin());
        ++loop.index;
        auto const flow = within(loop.around, [&] {
            scope_->set("loop", self);
            assign(*node.children[0], loop.current);
            return run_.is_failed() ? Flow::on : execute_all(*node.children[3]);
        });
        if (flow == Flow::leave) break;
    }
    loop.source = {};
    loop.around.reset();
    if (loop.index >= 0 || !node.children[4] || run_.is_failed()) return Flow::on;
    return execute_scoped(*node.children[4]);
}

inline JinjaValue JinjaInterpreter::loop_attribute(std::size_t index, std::string_view name) {
    auto& loop = loops_[index];
    auto const number = [](std::int64_t value) { return JinjaValue::integer(value); };
    if (name == "index") return number(loop.index + 1);
    if (name == "index0") return number(loop.index);
    if (name == "first") return JinjaValue::boolean(loop.index == 0);
    if (name == "last") return JinjaValue::boolean(!look_ahead(loop));
    if (name == "length") return number(length_of(loop));
    if (name == "revindex") return number(length_of(loop) - loop.index);
    if (name == "revindex0") return number(length_of(loop) - loop.index - 1);
    if (name == "previtem") return loop.index > 0 ? loop.previous : JinjaValue::undefined("there is no previous item");
    if (name == "nextitem")
        return look_ahead(loop) ? loop.ahead.front() : JinjaValue::undefined("there is no next item");
    if (name == "depth") return number(1);
    if (name == "depth0") return number(0);
    if (name == "cycle" || name == "changed")
        return JinjaValue::method(JinjaValue::numbered(JinjaKind::loop, index), std::string(name));
    return JinjaValue::undefined("'loop object' has no attribute '" + std::string(name) + "'");
}

inline JinjaValue JinjaInterpreter::call_loop(std::size_t index, std::string_view name, JinjaArguments const& given) {
    auto& loop = loops_[index];
    if (!given.named.empty()) return run_.wrong("loop." + std::string(name) + " takes no named arguments");
    if (name == "cycle") {
        if (given.values.empty()) return run_.wrong("loop.cycle has nothing to go round");
        return given.values[static_cast<std::size_t>(loop.index) % given.values.size()];
    }
    bool is_same = loop.last_changed && loop.last_changed->size() == given.values.size();
    for (std::size_t i = 0; is_same && i < given.values.size(); ++i)
        is_same = are_equal(run_, (*loop.last_changed)[i], given.values[i]);
    if (!is_same) loop.last_changed = given.values;
    return JinjaValue::boolean(!is_same);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
