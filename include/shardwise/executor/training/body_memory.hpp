// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/memory/arena.hpp>
#include <shardwise/model/backward_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where the values of a block lie while it is trained: what the backward pass reads, at places of the block's own; the others and
/// all gradients at places that blocks share, for as long as they are needed.
///
/// Units   floats
struct BodyMemory {
    /// What a value lies in.
    enum class Place : std::uint8_t {
        none,          // it is not held: ids, and what no step makes
        block_input,   // what the block before made
        block_output,  // what the next block reads
        kept,          // the block's own memory
        working,       // the memory that all blocks share
    };

    List<Place> places;
    List<std::int64_t> offsets;
    /// By operation; -1 where its log-sums are not kept.
    List<std::int64_t> log_sums;
    /// What each block of this kind keeps beside its input and output, and what it shares with others.
    std::int64_t kept = 0;
    std::int64_t working = 0;
};

namespace detail {

/// `rows` are those of the forward pass, `leaf_rows` those that are taken back at a time.
class BodyMemoryPlanner {
public:
    BodyMemoryPlanner(BackwardBody const& body, std::int64_t rows, std::int64_t leaf_rows)
        : body_(body), rows_(rows), leaf_rows_(leaf_rows) {}

    [[nodiscard]] BodyMemory plan() {
        made_.places.assign(body_.values.size(), BodyMemory::Place::none);
        made_.offsets.assign(body_.values.size(), 0);
        made_.log_sums.assign(body_.forward.operations().size(), -1);
        keep_values();
        plan_forward();
        plan_gradients();
        return static_cast<BodyMemory&&>(made_);
    }

private:
    using Place = BodyMemory::Place;
    struct Item {
        std::size_t value = 0;
        ArenaItem life;
    };

    [[nodiscard]] static std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
    [[nodiscard]] std::int64_t keep(std::int64_t floats) {
        auto const offset = made_.kept;
        made_.kept += round_up(floats, 16);
        return offset;
    }

    void keep_values() {
        auto const& operations = body_.forward.operations();
        made_.places[0] = Place::block_input;
        made_.places[at(operations.back().output)] = Place::block_output;
        for (auto const id : body_.saved) {
            if (made_.places[at(id)] != Place::none || body_.values[at(id)].is_external) continue;
            made_.places[at(id)] = Place::kept;
            made_.offsets[at(id)] = keep(rows_ * body_.values[at(id)].width);
        }
        for (auto const number : body_.log_sums) {
            auto const& op = operations[static_cast<std::size_t>(number)];
            made_.log_sums[static_cast<std::size_t>(number)] = keep(rows_ * op.attention.heads);
        }
    }
    /// A value lives from the step that makes it to the last that reads it.
    void plan_forward() {
        List<Item> items;
        std::int64_t step = 0;
        for (auto const& op : body_.forward.operations()) {
            if (made_.places[at(op.output)] == Place::none) note(items, at(op.output), step, rows_);
            for (auto const in : op.inputs) extend(items, in, step);
            ++step;
        }
        lay_out(items);
    }
    void plan_gradients() {
        List<Item> items;
        if (body_.in_gradient != no_value) made_.places[at(body_.in_gradient)] = Place::block_input;
        if (body_.out_gradient != no_value) made_.places[at(body_.out_gradient)] = Place::block_output;
        std::int64_t number = 0;
        for (auto const& step : body_.steps) {
            for (auto const to : step.writes) {
                if (to == no_value) continue;
                bool const is_new = made_.places[at(to)] == Place::none && !extend(items, to, number);
                if (is_new) note(items, at(to), number, leaf_rows_);
            }
            extend(items, step.reads, number);
            ++number;
        }
        lay_out(items);
    }
    void note(List<Item>& items, std::size_t value, std::int64_t step, std::int64_t rows) {
        auto const bytes = Bytes{rows * body_.values[value].width * static_cast<std::int64_t>(sizeof(float))};
        items.push_back({value, {.birth = step, .death = step, .size = bytes}});
    }
    static bool extend(List<Item>& items, ValueId id, std::int64_t step) {
        for (auto& item : items) {
            if (id == no_value || item.value != at(id)) continue;
            item.life.death = std::max(item.life.death, step);
            return true;
        }
        return false;
    }
    void lay_out(List<Item> const& items) {
        List<ArenaItem> lives;
        for (auto const& item : items) lives.push_back(item.life);
        auto const layout = plan_arena(Span<ArenaItem const>(lives.begin(), lives.size()));
        for (std::size_t i = 0; i < items.size(); ++i) {
            made_.places[items[i].value] = Place::working;
            made_.offsets[items[i].value] = layout.offsets[i].count() / static_cast<std::int64_t>(sizeof(float));
        }
        auto const floats = ceil_divide(layout.peak.count(), static_cast<std::int64_t>(sizeof(float)));
        made_.working = std::max(made_.working, round_up(floats, 16));
    }

    BackwardBody const& body_;
    std::int64_t rows_;
    std::int64_t leaf_rows_;
    BodyMemory made_;
};

}  // namespace detail

/// Lays the values and gradients of a block out, for `rows` tokens forwards and `leaf_rows` of them backwards at a time.
[[nodiscard]] inline BodyMemory plan_body_memory(BackwardBody const& body, std::int64_t rows, std::int64_t leaf_rows) {
    return detail::BodyMemoryPlanner(body, rows, leaf_rows).plan();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
