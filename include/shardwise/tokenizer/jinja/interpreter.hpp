// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/filters.hpp>
#include <shardwise/tokenizer/jinja/functions.hpp>
#include <shardwise/tokenizer/jinja/methods.hpp>
#include <shardwise/tokenizer/jinja/scope.hpp>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// A part of a text, in bytes.
struct TextSpan {
    std::size_t begin = 0;
    std::size_t end = 0;
};

/// Names that a template finds beside its own.
using JinjaGlobals = std::vector<std::pair<std::string, JinjaValue>>;

/// Runs one template once.
class JinjaInterpreter {
public:
    /// `now` is what strftime_now writes; without it a template that asks for it is refused.
    JinjaInterpreter(JinjaRunState& run, JinjaGlobals const& globals, std::optional<std::tm> now)
        : run_(run), globals_(globals), now_(now), scope_(std::make_shared<JinjaScope>()) {}

    /// What the template writes; where the run failed, a part of it.
    [[nodiscard]] std::string render(JinjaNode const& root) {
        execute(root);
        return std::move(output_);
    }
    /// What the template has marked as written by the assistant ({% generation %}), in its order.
    [[nodiscard]] std::vector<TextSpan> const& spans() const { return spans_; }
    /// Whether something else is marked, whose place in the text is not known: in a macro, or in a text that was set.
    [[nodiscard]] bool has_lost_spans() const { return has_lost_spans_; }

private:
    /// How a statement ends.
    enum class Flow : std::uint8_t { on, leave, next };

    // evaluate.hpp
    JinjaValue evaluate(JinjaNode const& node);
    JinjaValue evaluate_container(JinjaNode const& node);
    JinjaValue evaluate_compare(JinjaNode const& node);
    JinjaValue evaluate_concat(JinjaNode const& node);
    JinjaValue evaluate_slice(JinjaNode const& node);
    JinjaValue evaluate_filter(JinjaNode const& node);
    JinjaValue evaluate_call(JinjaNode const& node, JinjaValue const* caller);
    JinjaValue evaluate_sign(JinjaNode const& node);
    JinjaValue call_value(JinjaValue const& callee, JinjaArguments const& given);
    JinjaValue look_up(std::string_view name);
    JinjaValue attribute(JinjaValue const& value, std::string_view name);
    JinjaArguments arguments(JinjaNode const& node);

    // execute.hpp
    Flow execute(JinjaNode const& node);
    Flow execute_all(JinjaNode const& block);
    Flow execute_scoped(JinjaNode const& block);
    Flow execute_branch(JinjaNode const& node);
    Flow execute_with(JinjaNode const& node);
    Flow execute_assign_block(JinjaNode const& node);
    Flow execute_filter_block(JinjaNode const& node);
    Flow execute_generation(JinjaNode const& node);
    void execute_call_block(JinjaNode const& node);
    void assign(JinjaNode const& target, JinjaValue value);
    void print(JinjaValue const& value);
    JinjaValue make_macro(JinjaNode const& node, std::string_view name, std::size_t body);
    JinjaValue call_macro(std::size_t index, JinjaArguments const& given);

    // loops.hpp
    Flow execute_loop(JinjaNode const& node);
    std::optional<JinjaValue> next_item(JinjaLoop& loop);
    bool look_ahead(JinjaLoop& loop);
    std::int64_t length_of(JinjaLoop& loop);
    JinjaValue loop_attribute(std::size_t index, std::string_view name);
    JinjaValue call_loop(std::size_t index, std::string_view name, JinjaArguments const& given);

    /// Runs something within names of its own, inside of `around`.
    template <class Body>
    auto within(std::shared_ptr<JinjaScope> around, Body body) {
        auto const before = scope_;
        scope_ = std::make_shared<JinjaScope>();
        scope_->parent = std::move(around);
        struct Restore {
            std::shared_ptr<JinjaScope>& scope;
            std::shared_ptr<JinjaScope> before;
            ~Restore() { scope = std::move(before); }
        } const restore{scope_, before};
        return body();
    }
    /// What something writes, instead of writing it.
    template <class Body>
    std::string captured(Body body) {
        auto before = std::exchange(output_, {});
        ++captures_;
        body();
        --captures_;
        return std::exchange(output_, std::move(before));
    }

    JinjaRunState& run_;
    JinjaGlobals const& globals_;
    std::optional<std::tm> now_;
    std::shared_ptr<JinjaScope> scope_;
    std::deque<JinjaMacro> macros_;
    std::deque<JinjaLoop> loops_;
    JinjaValue piped_;  // what a block's filter takes
    std::string output_;
    /// How many texts that are written around this one are not the output.
    int captures_ = 0;
    std::vector<TextSpan> spans_;
    bool has_lost_spans_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
