// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/body_memory.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::testing {

/// Who has written each float of the memory that blocks share.
class OwnedMemory {
public:
    explicit OwnedMemory(std::int64_t floats) : owners_(static_cast<std::size_t>(floats), -1) {}

    void write(BodyMemory::Spot const& spot, std::int64_t floats, int owner) {
        REQUIRE(spot.offset + floats <= static_cast<std::int64_t>(owners_.size()));
        for (std::int64_t i = 0; i < floats; ++i) owners_[static_cast<std::size_t>(spot.offset + i)] = owner;
    }
    [[nodiscard]] bool has(BodyMemory::Spot const& spot, std::int64_t floats, int owner) const {
        for (std::int64_t i = 0; i < floats; ++i) {
            if (owners_[static_cast<std::size_t>(spot.offset + i)] != owner) return false;
        }
        return true;
    }

private:
    std::vector<int> owners_;
};

/// Plays both passes of a block on its plan: each value is read where it was written last.
class MemoryPlayer {
public:
    MemoryPlayer(BackwardBody const& body, BodyRows const& rows, Recompute what, List<char> const& rounded = {},
                 bool is_split = false)
        : body_(body), rows_(rows), plan_(plan_body_memory(body, rows, what, rounded, is_split)) {}

    void play() {
        OwnedMemory forward(plan_.working);
        for (std::size_t i = 0; i < body_.forward.operations().size(); ++i)
            run(forward, plan_.forward, i, rows_.forward);
        OwnedMemory waiting(plan_.waiting);
        play(plan_.backward, waiting);
        bool const is_split = plan_.backward.part == BackwardPart::inputs;
        CHECK(is_split == (plan_.parameters.part == BackwardPart::parameters));
        if (is_split) play(plan_.parameters, waiting);
    }

private:
    /// `waiting` is what the first part of a backward pass leaves to the second.
    void play(BodyMemory::Back const& pass, OwnedMemory& waiting) {
        waiting_ = &waiting;
        OwnedMemory backward(plan_.working);
        if (pass.output_copy.place == BodyMemory::Place::waiting)
            waiting.write(pass.output_copy, floats(body_.out_gradient, rows_.all), body_.out_gradient);
        std::size_t next = 0;
        std::size_t unpacked = 0;
        for (std::size_t i = 0; i < body_.steps.size(); ++i) {
            if (!runs_in(body_.steps[i], pass.part)) continue;
            for (; unpacked < pass.unpacked.size() && pass.unpacked[unpacked].step == i; ++unpacked)
                unpack(backward, pass, pass.unpacked[unpacked].value);
            for (; next < pass.again.size() && pass.again[next].step == i; ++next)
                run(backward, pass, pass.again[next].operation, rows_.backward);
            take_back(backward, pass, body_.steps[i]);
        }
        CHECK(next == pass.again.size());
        CHECK(unpacked == pass.unpacked.size());
    }
    [[nodiscard]] std::int64_t floats(ValueId id, std::int64_t rows) const {
        return rows * body_.values[static_cast<std::size_t>(id)].width;
    }
    /// Log-sums are owners after the values.
    [[nodiscard]] int sums_of(std::size_t number) const { return static_cast<int>(body_.values.size() + number); }

    void run(OwnedMemory& memory, BodyMemory::Pass const& pass, std::size_t number, std::int64_t rows) {
        auto const& op = body_.forward.operations()[number];
        for (auto const in : op.inputs) {
            if (in != no_value) read(memory, pass, in, rows);
        }
        write(memory, pass, op.output, rows);
        auto const& sums = pass.log_sums[number];
        if (sums.place == BodyMemory::Place::working) memory.write(sums, rows * op.attention().heads, sums_of(number));
    }
    void read(OwnedMemory const& memory, BodyMemory::Pass const& pass, ValueId id, std::int64_t rows) {
        auto const& spot = pass.values[static_cast<std::size_t>(id)];
        CHECK((spot.place != BodyMemory::Place::none || body_.values[static_cast<std::size_t>(id)].is_external));
        if (spot.place == BodyMemory::Place::working) CHECK(memory.has(spot, floats(id, rows), id));
        if (spot.place == BodyMemory::Place::waiting) CHECK(waiting_->has(spot, floats(id, rows_.all), id));
    }
    void write(OwnedMemory& memory, BodyMemory::Pass const& pass, ValueId id, std::int64_t rows) {
        auto const& spot = pass.values[static_cast<std::size_t>(id)];
        CHECK(spot.place != BodyMemory::Place::none);
        if (spot.place == BodyMemory::Place::working) memory.write(spot, floats(id, rows), id);
        if (spot.place == BodyMemory::Place::kept) CHECK(spot.offset + floats(id, rows_.all) <= plan_.kept);
        if (spot.place == BodyMemory::Place::waiting) waiting_->write(spot, floats(id, rows_.all), id);
    }
    void unpack(OwnedMemory& memory, BodyMemory::Back const& pass, ValueId id) {
        auto const& spot = pass.values[static_cast<std::size_t>(id)];
        CHECK(spot.packed >= 0);
        CHECK(spot.packed == plan_.forward.values[static_cast<std::size_t>(id)].packed);
        CHECK(spot.packed + ceil_divide(floats(id, rows_.all), 2) <= plan_.kept);
        write(memory, pass, id, rows_.backward);
    }
    void take_back(OwnedMemory& memory, BodyMemory::Back const& pass, GradientStep const& step) {
        read(memory, pass, step.reads, rows_.backward);
        detail::for_each_read(body_, step, [&](ValueId id) { read(memory, pass, id, rows_.backward); });
        if (step.part == GradientPart::inputs && detail::gradient_rule(body_, step).reads_log_sums) {
            auto const number = static_cast<std::size_t>(step.of);
            auto const& sums = pass.log_sums[number];
            CHECK(sums.place != BodyMemory::Place::none);
            auto const count = rows_.backward * body_.forward.operations()[number].attention().heads;
            if (sums.place == BodyMemory::Place::working) CHECK(memory.has(sums, count, sums_of(number)));
        }
        for (std::size_t i = 0; i < step.writes.size(); ++i) {
            if (step.writes[i] == no_value) continue;
            if (step.is_added[i]) read(memory, pass, step.writes[i], rows_.backward);
            write(memory, pass, step.writes[i], rows_.backward);
        }
    }

    BackwardBody const& body_;
    BodyRows rows_;
    BodyMemory plan_;
    OwnedMemory* waiting_ = nullptr;
};

}  // namespace shardwise::testing
