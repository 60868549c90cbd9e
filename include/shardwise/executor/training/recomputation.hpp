// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/backward_program.hpp>
#include <shardwise/op/visit_op.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a block keeps of its forward pass beside its input and output, and what its backward pass computes again.
///
/// `none` keeps all that the backward pass reads. `full` keeps nothing. `selective` keeps what products and attention made, and computes
/// the values again that operations on vectors (norms, activations, additions, rotations) make of what is there: it takes no product twice,
/// and keeps nothing that `none` would not.
struct Recomputation {
    /// An operation of the forward pass that runs again, and the step of the backward pass before which it does.
    struct Again {
        std::size_t operation = 0;
        std::size_t step = 0;
    };

    /// By value.
    List<char> is_kept;
    /// By operation: whether its log-sums are kept.
    List<char> keeps_log_sums;
    /// In the order in which they run: each as late as its first reader lets it.
    List<Again> again;
};

namespace detail {

/// Of the operation of a step of the backward pass.
[[nodiscard]] inline GradientRule gradient_rule(BackwardBody const& body, GradientStep const& step) {
    auto const& op = body.forward.operations()[static_cast<std::size_t>(step.of)];
    auto const& values = body.values;
    return visit_op(op.kind,
                    [&](auto of) { return of.gradient(op, Span<Value const>(values.begin(), values.size())); });
}

/// Calls `call(id)` with the values of the forward pass that a step of the backward pass reads.
template <class Call>
void for_each_read(BackwardBody const& body, GradientStep const& step, Call&& call) {
    if (step.of < 0) return;
    auto const& op = body.forward.operations()[static_cast<std::size_t>(step.of)];
    auto const rule = gradient_rule(body, step);
    bool const is_of_inputs = step.part == GradientPart::inputs;
    auto const& reads = is_of_inputs ? rule.reads : rule.parameters_read;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (reads[i] && op.inputs[i] != no_value) call(op.inputs[i]);
    }
    if (is_of_inputs && rule.reads_output) call(op.output);
}

/// Chooses what is kept, from the first operation on, and then finds what runs again, from the first step of the backward pass on.
class RecomputationPlanner {
public:
    RecomputationPlanner(BackwardBody const& body, Recompute what, BackwardPart part)
        : body_(body), what_(what), part_(part) {}

    [[nodiscard]] Recomputation plan() {
        auto const& operations = body_.forward.operations();
        made_.is_kept.assign(body_.values.size(), 0);
        made_.keeps_log_sums.assign(operations.size(), 0);
        makers_.assign(body_.values.size(), 0);
        has_run_.assign(operations.size(), 0);
        choose();
        for (auto const number : body_.log_sums) {
            auto const i = static_cast<std::size_t>(number);
            made_.keeps_log_sums[i] = is_there(operations[i].output) ? 1 : 0;
        }
        for (std::size_t step = 0; step < body_.steps.size(); ++step) {
            if (!runs_in(body_.steps[step], part_)) continue;
            for_each_read(body_, body_.steps[step], [&](ValueId id) { need(id, step); });
        }
        return static_cast<Recomputation&&>(made_);
    }

private:
    [[nodiscard]] static std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
    /// Without any computation: a block has its input, and the next one its output.
    [[nodiscard]] bool is_there(ValueId id) const {
        return id == 0 || id == body_.forward.operations().back().output || body_.values[at(id)].is_external ||
               made_.is_kept[at(id)] != 0;
    }
    [[nodiscard]] bool may_run_again(Operation const& op) const {
        switch (what_) {
            case Recompute::none:
                return false;
            case Recompute::selective:
                return visit_op(op.kind, [](auto of) { return of.unit == OpUnit::vectors; });
            case Recompute::full:
                return true;
        }
        return false;
    }
    void choose() {
        List<char> is_saved(body_.values.size(), 0);
        for (auto const id : body_.saved) is_saved[at(id)] = 1;
        // Those that are there, or follow from what is.
        List<char> is_known(body_.values.size(), 0);
        for (std::size_t i = 0; i < is_known.size(); ++i) is_known[i] = is_there(static_cast<ValueId>(i)) ? 1 : 0;
        std::size_t number = 0;
        for (auto const& op : body_.forward.operations()) {
            auto const out = at(op.output);
            makers_[out] = number++;
            if (is_known[out] != 0) continue;
            bool follows = may_run_again(op);
            for (auto const in : op.inputs) follows = follows && (in == no_value || is_known[at(in)] != 0);
            if (!follows) made_.is_kept[out] = is_saved[out];
            is_known[out] = follows || is_saved[out] != 0 ? 1 : 0;
        }
    }
    void need(ValueId id, std::size_t step) {
        if (is_there(id)) return;
        auto const number = makers_[at(id)];
        if (has_run_[number] != 0) return;
        has_run_[number] = 1;
        for (auto const in : body_.forward.operations()[number].inputs) {
            if (in != no_value) need(in, step);
        }
        made_.again.push_back({number, step});
    }

    BackwardBody const& body_;
    Recompute what_;
    BackwardPart part_;
    Recomputation made_;
    /// By value, the operation that makes it.
    List<std::size_t> makers_;
    List<char> has_run_;
};

}  // namespace detail

/// Derives from a block's operations alone what it keeps, and what a part of its backward pass computes again.
[[nodiscard]] inline Recomputation plan_recomputation(BackwardBody const& body, Recompute what,
                                                      BackwardPart part = BackwardPart::whole) {
    return detail::RecomputationPlanner(body, what, part).plan();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
