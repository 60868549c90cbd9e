// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/block_program.hpp>
#include <shardwise/model/single_assignment.hpp>
#include <shardwise/op/visit_op.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a step of the backward pass makes.
enum class GradientPart : std::uint8_t {
    inputs,      // the gradients of an operation's inputs
    parameters,  // those of its parameters
    reduction,   // the sum over tensor-parallel ranks of a gradient of which each has a summand
    sum,         // a reduced gradient is added to what is whole on every rank
};

/// A step of the backward pass of a block. It reads the gradient `reads` (of a forward operation's output, or what is reduced or
/// added) and, of the forward pass, what the operation's GradientRule says.
struct GradientStep {
    GradientPart part = GradientPart::inputs;
    /// The index of the forward operation; -1 for reductions and sums.
    std::int32_t of = -1;
    ValueId reads = no_value;
    /// Of `inputs`: for each input of the operation its gradient, no_value where it gets none. Of a sum: what is added to.
    std::array<ValueId, 4> writes{no_value, no_value, no_value, no_value};
    /// True where an earlier step has written this gradient: it is added to. One step that writes the same gradient twice (both halves of a
    /// packed value) writes disjoint columns of it.
    std::array<bool, 4> is_added{};
    /// Of `parameters`: whether the gradient is that of this rank's shard, whole on every rank, or a summand. Of a reduction: partial, or
    /// sharded where only ranks that hold the same key-value heads add up theirs.
    Spread spread = Spread::replicated;
};

/// Which steps of a backward pass run: all of them; or of one in two parts those that lead to the gradients of inputs, for which the block
/// before waits, or those that make the gradients of parameters, for which nobody does.
enum class BackwardPart : std::uint8_t { whole, inputs, parameters };

[[nodiscard]] constexpr bool runs_in(GradientStep const& step, BackwardPart part) {
    bool const is_of_parameters = step.part == GradientPart::parameters;
    return part == BackwardPart::whole || is_of_parameters == (part == BackwardPart::parameters);
}

/// A block's computation and its reverse.
struct BackwardBody {
    /// The forward operations, each with an output of its own.
    BlockBody forward;
    /// Its values, and after them the gradients.
    List<Value> values;
    /// Of each of them the value that it is, or that it is the gradient of.
    List<ValueId> value_of;
    /// In the order in which they run.
    List<GradientStep> steps;
    /// Forward values that the backward pass reads, each once, in their order; the block's input among them.
    List<ValueId> saved;
    /// Forward attentions whose log-sums are read: indices of operations.
    List<std::int32_t> log_sums;
    /// What it reads first, and what it hands to the block before; no_value where that has nothing to train.
    ValueId out_gradient = no_value;
    ValueId in_gradient = no_value;
};

namespace detail {

/// Writes the steps of one block.
template <class Trains>
class BackwardBuilder {
public:
    constexpr BackwardBuilder(BlockBody const& body, Trains const& trains, bool needs_input) : trains_(trains) {
        made_.forward = single_assignment(body);
        count_ = made_.forward.values().size();
        for (std::size_t i = 0; i < count_; ++i) {
            made_.values.push_back(made_.forward.values()[i]);
            made_.value_of.push_back(static_cast<ValueId>(i));
            whole_.push_back(no_value);
            partial_.push_back(no_value);
            is_saved_.push_back(0);
            is_needed_.push_back(i == 0 && needs_input ? 1 : 0);
        }
    }

    constexpr Result<BackwardBody> build(std::string_view module) {
        auto const& operations = made_.forward.operations();
        List<GradientRule> rules;
        for (auto const& op : operations) {
            auto const rule = rule_of(op);
            if (!rule.refusal.empty()) {
                return Error{ErrorCode::unsupported}
                    .in(module)
                    .at(op.parameters[0].empty() ? name_of(op) : op.parameters[0])
                    .because(rule.refusal);
            }
            rules.push_back(rule);
            note_need(op, rule);
        }
        if (operations.empty()) return static_cast<BackwardBody&&>(made_);
        auto const last = operations.back().output;
        if (is_needed_[at(last)] != 0) made_.out_gradient = whole(last);
        for (auto i = operations.size(); i-- > 0;) {
            auto const& op = operations[i];
            if (is_needed_[at(op.output)] == 0) continue;
            auto const gradient = finish(op.output);
            if (gradient == no_value) continue;
            add_inputs(static_cast<std::int32_t>(i), op, rules[i], gradient);
            add_parameters(static_cast<std::int32_t>(i), op, rules[i], gradient);
        }
        if (is_needed_[0] != 0) made_.in_gradient = finish(0);
        for (std::size_t i = 0; i < count_; ++i) {
            if (is_saved_[i] != 0) made_.saved.push_back(static_cast<ValueId>(i));
        }
        return static_cast<BackwardBody&&>(made_);
    }

private:
    static constexpr std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
    [[nodiscard]] constexpr Value const& value(ValueId id) const { return made_.values[at(id)]; }
    [[nodiscard]] static constexpr std::string_view name_of(Operation const& op) {
        return visit_op(op.kind, [](auto of) { return of.name; });
    }
    [[nodiscard]] constexpr GradientRule rule_of(Operation const& op) const {
        auto const& values = made_.forward.values();
        return visit_op(op.kind,
                        [&](auto of) { return of.gradient(op, Span<Value const>(values.begin(), values.size())); });
    }
    [[nodiscard]] constexpr bool has_trained(Operation const& op) const {
        for (auto const name : op.parameters) {
            if (!name.empty() && trains_(name)) return true;
        }
        return false;
    }
    /// A value needs a gradient where something before it is trained.
    constexpr void note_need(Operation const& op, GradientRule const& rule) {
        bool is_needed = has_trained(op);
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (rule.has_gradient[i] && op.inputs[i] != no_value) is_needed |= is_needed_[at(op.inputs[i])] != 0;
        }
        if (is_needed) is_needed_[at(op.output)] = 1;
    }
    /// A gradient has the shape of its value. Summands (of a row-parallel product) have the gradient of their sum, which is whole.
    constexpr ValueId new_gradient(ValueId of, Spread spread) {
        auto gradient = value(of);
        gradient.spread = spread == Spread::partial ? Spread::replicated : spread;
        gradient.is_external = false;
        made_.values.push_back(gradient);
        made_.value_of.push_back(of);
        return static_cast<ValueId>(made_.values.size() - 1);
    }
    constexpr ValueId whole(ValueId of) {
        if (whole_[at(of)] == no_value) whole_[at(of)] = new_gradient(of, value(of).spread);
        return whole_[at(of)];
    }
    /// What each rank has a summand of.
    constexpr ValueId partial(ValueId of) {
        if (partial_[at(of)] == no_value) {
            partial_[at(of)] = new_gradient(of, Spread::replicated);
            made_.values.back().spread = Spread::partial;
        }
        return partial_[at(of)];
    }
    /// True where a rank's part of the outputs gives a summand of the inputs' gradient: a column-parallel layer.
    [[nodiscard]] constexpr bool makes_summands(Operation const& op, ValueId in) const {
        return op.kind == OpKind::linear && value(op.output).spread == Spread::sharded &&
               value(in).spread != Spread::sharded;
    }
    /// A value's gradient once all that read the value have added theirs: summed over the ranks, once for all of them.
    constexpr ValueId finish(ValueId of) {
        auto const summands = partial_[at(of)];
        auto const found = whole_[at(of)];
        if (summands != no_value) {
            made_.steps.push_back({.part = GradientPart::reduction,
                                   .reads = summands,
                                   .writes = {summands, no_value, no_value, no_value},
                                   .spread = Spread::partial});
            if (found == no_value) return summands;
            made_.steps.push_back({.part = GradientPart::sum,
                                   .reads = summands,
                                   .writes = {found, no_value, no_value, no_value},
                                   .is_added = {true}});
        }
        bool const has_kv = found != no_value && value(of).split.has_kv_heads();
        if (has_kv && is_attended(of)) {
            made_.steps.push_back({.part = GradientPart::reduction,
                                   .reads = found,
                                   .writes = {found, no_value, no_value, no_value},
                                   .spread = Spread::sharded});
        }
        return found;
    }
    /// True for keys and values as an attention reads them: query heads of several ranks may share them.
    [[nodiscard]] constexpr bool is_attended(ValueId id) const {
        for (auto const& op : made_.forward.operations()) {
            if (op.kind == OpKind::attention && (op.inputs[1] == id || op.inputs[2] == id)) return true;
        }
        return false;
    }
    constexpr void save(Operation const& op, std::array<bool, 4> const& inputs) {
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (inputs[i] && op.inputs[i] != no_value) is_saved_[at(op.inputs[i])] = 1;
        }
    }
    constexpr void add_inputs(std::int32_t index, Operation const& op, GradientRule const& rule, ValueId gradient) {
        GradientStep step{.part = GradientPart::inputs, .of = index, .reads = gradient};
        bool is_any = false;
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            auto const in = op.inputs[i];
            if (!rule.has_gradient[i] || in == no_value || is_needed_[at(in)] == 0 || value(in).is_external) continue;
            bool const is_summand = makes_summands(op, in);
            auto const before = is_summand ? partial_[at(in)] : whole_[at(in)];
            step.writes[i] = is_summand ? partial(in) : whole(in);
            step.is_added[i] = before != no_value;
            // The same value twice: halves of one, or x + x.
            for (std::size_t j = 0; j < i; ++j) {
                if (op.inputs[j] == in) step.is_added[i] = op.kind == OpKind::add || step.is_added[j];
            }
            is_any = true;
        }
        if (!is_any) return;
        save(op, rule.reads);
        if (rule.reads_output) is_saved_[at(op.output)] = 1;
        if (rule.reads_log_sums) made_.log_sums.push_back(index);
        made_.steps.push_back(step);
    }
    constexpr void add_parameters(std::int32_t index, Operation const& op, GradientRule const& rule, ValueId gradient) {
        if (!has_trained(op)) return;
        save(op, rule.parameters_read);
        made_.steps.push_back(
            {.part = GradientPart::parameters, .of = index, .reads = gradient, .spread = rule.parameter_spread});
    }
    BackwardBody made_;
    Trains const& trains_;
    /// Forward values.
    std::size_t count_ = 0;
    List<ValueId> whole_;
    List<ValueId> partial_;
    // Not bool: clang 14 cannot evaluate that vector.
    List<std::int64_t> is_saved_;
    List<std::int64_t> is_needed_;
};

struct TrainsAll {
    constexpr bool operator()(std::string_view) const { return true; }
};

}  // namespace detail

/// The backward pass of a block, derived from its forward operations alone: each in reverse with the rule that stands beside it
/// (`op/<kind>.hpp`), gradients of a value added up over those that read it. What tensor-parallel ranks have to add up follows
/// from how they hold the values: an input of column-parallel layers once, after the last of them. Gradients that nothing
/// trained needs are not made.
///
/// `trains(name)` says which parameters are trained; `needs_input` is false for the first block, and where nothing before is trained.
///
/// Errors  unsupported for an operation without a gradient, which names the parameter or the operation; what the body refuses
template <class Trains = detail::TrainsAll>
[[nodiscard]] constexpr Result<BackwardBody> backward_of(BlockBody const& body, std::string_view module = {},
                                                         bool needs_input = true, Trains const& trains = {}) {
    if (auto const checked = body.check(module); !checked) return checked.error();
    return detail::BackwardBuilder<Trains>(body, trains, needs_input).build(module);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
