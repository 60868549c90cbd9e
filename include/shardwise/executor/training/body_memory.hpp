// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/executor/training/recomputation.hpp>
#include <shardwise/executor/training/rounded_values.hpp>
#include <shardwise/memory/arena.hpp>
#include <shardwise/model/backward_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where the values of a block lie while it is trained: what it keeps for its backward pass, at places of the block's own; the others,
/// those that the backward pass computes again and all gradients at places that blocks share, for as long as they are needed.
///
/// Units   floats
struct BodyMemory {
    /// What a value lies in.
    enum class Place : std::uint8_t {
        none,          // it is not held: ids, and what no step makes or reads
        block_input,   // what the block before made
        block_output,  // what the next block reads
        kept,          // the block's own memory, with the rows of all sequences
        working,       // the memory that all blocks share, with the rows of those that are computed
        waiting,  // of gradients, the block's own memory between the parts of a backward pass, with the rows of all sequences
    };
    struct Spot {
        Place place = Place::none;
        std::int64_t offset = 0;
        /// Where the block keeps it in 16 bits, too, beside the working value; -1: nowhere.
        std::int64_t packed = -1;
    };
    /// A value that is kept in 16 bits, and the step of the backward pass that it is brought back before.
    struct Unpacked {
        ValueId value = no_value;
        std::size_t step = 0;
    };
    /// Where things are in one of the passes.
    struct Pass {
        /// By value, gradients after those of the forward pass.
        List<Spot> values;
        /// By operation.
        List<Spot> log_sums;
    };

    /// A walk back, or one of its two parts.
    struct Back : Pass {
        BackwardPart part = BackwardPart::whole;
        List<Recomputation::Again> again;
        /// In the order of their steps; before what runs again there.
        List<Unpacked> unpacked;
        /// Where the gradient of the block's output goes first, too, for the part that comes later.
        Spot output_copy{};
    };

    Pass forward;
    Back backward;
    /// The second part of a backward pass in two, of which `backward` is the first.
    Back parameters;
    /// What each block of this kind keeps beside its input and output, of gradients between the parts, and what it shares with others.
    std::int64_t kept = 0;
    std::int64_t waiting = 0;
    std::int64_t working = 0;
};

/// Tokens that a block takes at a time.
struct BodyRows {
    /// Of which its values are kept.
    std::int64_t all = 0;
    /// Of a step of the forward pass, and of the backward pass.
    std::int64_t forward = 0;
    std::int64_t backward = 0;
};

namespace detail {

class BodyMemoryPlanner {
public:
    /// `rounded` are the values that are kept in 16 bits, or none.
    BodyMemoryPlanner(BackwardBody const& body, BodyRows const& rows, Recompute what, List<char> const& rounded)
        : body_(body), rows_(rows), what_(what), rounded_(rounded), how_(plan_recomputation(body, what)) {}

    [[nodiscard]] BodyMemory plan(bool is_split) {
        made_.forward.values.resize(body_.values.size());
        made_.forward.log_sums.resize(body_.forward.operations().size());
        keep_values();
        static_cast<BodyMemory::Pass&>(made_.backward) = made_.forward;
        static_cast<BodyMemory::Pass&>(made_.parameters) = made_.forward;
        plan_forward();
        if (is_split) {
            keep_gradients();
            plan_backward(made_.backward, BackwardPart::inputs);
            plan_backward(made_.parameters, BackwardPart::parameters);
        } else {
            plan_backward(made_.backward, BackwardPart::whole);
        }
        return static_cast<BodyMemory&&>(made_);
    }

private:
    using Place = BodyMemory::Place;
    using Spot = BodyMemory::Spot;
    struct Item {
        Spot* spot = nullptr;
        ArenaItem life;
    };

    [[nodiscard]] static std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
    [[nodiscard]] std::int64_t width(ValueId id) const { return body_.values[at(id)].width; }
    [[nodiscard]] Operation const& operation(std::size_t number) const { return body_.forward.operations()[number]; }
    [[nodiscard]] Spot keep(std::int64_t floats) {
        auto const offset = made_.kept;
        made_.kept += round_up(floats, 16);
        return {Place::kept, offset};
    }
    [[nodiscard]] Spot keep_half(std::int64_t values) {
        auto const kept = keep(ceil_divide(values, 2));
        return {Place::none, 0, kept.offset};
    }

    void keep_values() {
        auto& pass = made_.forward;
        pass.values[0].place = Place::block_input;
        pass.values[at(body_.forward.operations().back().output)].place = Place::block_output;
        for (auto const id : body_.saved) {
            if (how_.is_kept[at(id)] == 0) continue;
            auto const elements = rows_.all * width(id);
            bool const is_half = !rounded_.empty() && rounded_[at(id)] != 0;
            pass.values[at(id)] = is_half ? keep_half(elements) : keep(elements);
        }
        for (auto const number : body_.log_sums) {
            auto const i = static_cast<std::size_t>(number);
            if (how_.keeps_log_sums[i] != 0) pass.log_sums[i] = keep(rows_.all * operation(i).attention().heads);
        }
    }
    /// Gradients that parameters' are made of: the first part of a backward pass writes them where the second one finds them.
    void keep_gradients() {
        for (auto const& step : body_.steps) {
            if (step.part != GradientPart::parameters) continue;
            auto& later = made_.parameters.values[at(step.reads)];
            if (later.place != Place::none) continue;
            later = {Place::waiting, made_.waiting};
            made_.waiting += round_up(rows_.all * width(step.reads), 16);
            (step.reads == body_.out_gradient ? made_.backward.output_copy : made_.backward.values[at(step.reads)]) =
                later;
        }
    }
    /// A value lives from the step that makes it to the last that reads it.
    void plan_forward() {
        List<Item> items;
        std::int64_t event = 0;
        for (auto const& op : body_.forward.operations()) run(items, made_.forward, op, event++, rows_.forward);
        lay_out(items);
    }
    void plan_backward(BodyMemory::Back& pass, BackwardPart part) {
        List<Item> items;
        pass.part = part;
        pass.again = plan_recomputation(body_, what_, part).again;
        unpacked_ = &pass.unpacked;
        if (part != BackwardPart::parameters) {
            if (body_.in_gradient != no_value) pass.values[at(body_.in_gradient)].place = Place::block_input;
            if (body_.out_gradient != no_value) pass.values[at(body_.out_gradient)].place = Place::block_output;
        }
        std::int64_t event = 0;
        std::size_t next = 0;
        for (std::size_t i = 0; i < body_.steps.size(); ++i) {
            if (!runs_in(body_.steps[i], part)) continue;
            step_ = i;
            begin_ = event;
            for (; next < pass.again.size() && pass.again[next].step == i; ++next) {
                auto const number = pass.again[next].operation;
                run(items, pass, operation(number), event, rows_.backward);
                if (is_log_sum_read(number) && how_.keeps_log_sums[number] == 0)
                    note(items, pass.log_sums[number], event, rows_.backward * operation(number).attention().heads);
                ++event;
            }
            take_back(items, pass, body_.steps[i], event++);
        }
        lay_out(items);
    }
    void run(List<Item>& items, BodyMemory::Pass& pass, Operation const& op, std::int64_t event, std::int64_t rows) {
        auto& out = pass.values[at(op.output)];
        if (out.place == Place::none) note(items, out, event, rows * width(op.output));
        for (auto const in : op.inputs) {
            if (in != no_value) read(items, pass, in, event);
        }
    }
    /// A value that is kept in 16 bits comes back before the step that reads it first.
    void read(List<Item>& items, BodyMemory::Pass& pass, ValueId id, std::int64_t event) {
        auto& spot = pass.values[at(id)];
        if (extend(items, spot, event) || spot.packed < 0) return;
        note(items, spot, begin_, rows_.backward * width(id));
        extend(items, spot, event);
        unpacked_->push_back({id, step_});
    }
    void take_back(List<Item>& items, BodyMemory::Pass& pass, GradientStep const& step, std::int64_t event) {
        for (auto const to : step.writes) {
            if (to == no_value) continue;
            auto& spot = pass.values[at(to)];
            if (!extend(items, spot, event) && spot.place == Place::none)
                note(items, spot, event, rows_.backward * width(to));
        }
        if (step.reads != no_value) extend(items, pass.values[at(step.reads)], event);
        for_each_read(body_, step, [&](ValueId id) { read(items, pass, id, event); });
        if (step.part == GradientPart::inputs) extend(items, pass.log_sums[static_cast<std::size_t>(step.of)], event);
    }
    [[nodiscard]] bool is_log_sum_read(std::size_t number) const {
        for (auto const other : body_.log_sums) {
            if (static_cast<std::size_t>(other) == number) return true;
        }
        return false;
    }
    static void note(List<Item>& items, Spot& spot, std::int64_t event, std::int64_t floats) {
        Bytes const bytes{floats * static_cast<std::int64_t>(sizeof(float))};
        items.push_back({&spot, {.birth = event, .death = event, .size = bytes}});
    }
    static bool extend(List<Item>& items, Spot const& spot, std::int64_t event) {
        for (auto& item : items) {
            if (item.spot != &spot) continue;
            item.life.death = std::max(item.life.death, event);
            return true;
        }
        return false;
    }
    void lay_out(List<Item> const& items) {
        List<ArenaItem> lives;
        for (auto const& item : items) lives.push_back(item.life);
        auto const layout = plan_arena(Span<ArenaItem const>(lives.begin(), lives.size()));
        for (std::size_t i = 0; i < items.size(); ++i) {
            items[i].spot->place = Place::working;
            items[i].spot->offset = layout.offsets[i].count() / static_cast<std::int64_t>(sizeof(float));
        }
        auto const floats = ceil_divide(layout.peak.count(), static_cast<std::int64_t>(sizeof(float)));
        made_.working = std::max(made_.working, round_up(floats, 16));
    }

    BackwardBody const& body_;
    BodyRows rows_;
    Recompute what_;
    List<char> const& rounded_;
    Recomputation how_;
    BodyMemory made_;
    /// Of the backward pass that is planned; its step, and when that begins.
    List<BodyMemory::Unpacked>* unpacked_ = nullptr;
    std::size_t step_ = 0;
    std::int64_t begin_ = 0;
};

}  // namespace detail

/// Lays the values and gradients of a block out; those that are `rounded` (rounded_values) are kept in 16 bits. With `is_split` its
/// backward pass is in two parts.
[[nodiscard]] inline BodyMemory plan_body_memory(BackwardBody const& body, BodyRows const& rows, Recompute what,
                                                 List<char> const& rounded = {}, bool is_split = false) {
    return detail::BodyMemoryPlanner(body, rows, what, rounded).plan(is_split);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
