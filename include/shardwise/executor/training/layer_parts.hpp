// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/executor/training/optimizer_share.hpp>
#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/executor/training/weight_shares.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which parameters each block of a program and, after them, its head reads, and where they lie in memory that holds one of these alone;
/// with the blocks as they find their weights there.
///
/// Units  elements
class LayerParts {
public:
    /// A parameter, and of one that tensor-parallel ranks share the copy that is cut along the other axis, each where it is read.
    struct Part {
        /// Its number among the layout's parameters and, after them, what is frozen.
        std::size_t parameter = 0;
        std::int64_t begin = 0;
        std::int64_t elements = 0;
        std::int64_t turned_begin = 0;
        std::int64_t turned_elements = 0;
        /// Of what is held in a format of its own, whose bytes take the place of floats; they live as long as the program.
        HeldPart const* held = nullptr;
        HeldPart const* held_turned = nullptr;
    };

    explicit LayerParts(TrainingProgram const& program) {
        auto const& layout = program.layout();
        for (auto const& block : program.blocks()) {
            auto& made = blocks_.emplace_back(block);
            auto& parts = parts_.emplace_back();
            std::int64_t next = 0;
            auto const& operations = program.body(block).forward.operations();
            for (std::size_t i = 0; i < made.operations.size(); ++i) {
                auto& op = made.operations[i];
                // Of a table that ranks share each reads its columns of all rows alone.
                bool const is_looked_up = operations[i].kind == OpKind::embedding && op.cut != TrainedCut::none;
                for (auto& parameter : op.parameters) place(layout, parameter, parts, next, !is_looked_up);
                if (op.cut != TrainedCut::none) op.turned = place_turned(layout, op.parameters[0], parts, next);
            }
            elements_ = std::max(elements_, next);
        }
        head_ = program.head();
        auto& parts = parts_.emplace_back();
        std::int64_t next = 0;
        place(layout, head_.weight, parts, next, true);
        place(layout, head_.bias, parts, next, true);
        head_.turned = place_turned(layout, head_.weight, parts, next);
        // Copies are renewed from whole parameters, also where no layer reads both.
        elements_ = std::max({elements_, next, layout.exchanged_elements()});
        chunks_ = program.chunks();
        is_stage_ = program.place().pipeline.stages > 1;
        has_head_ = program.has_head();
    }

    /// Of a pipeline's rank, the blocks of a chunk, and whether the head comes after them; else all.
    [[nodiscard]] UnitRange chunk(std::size_t number) const { return chunks_[number]; }
    [[nodiscard]] bool has_head(std::size_t chunk) const { return has_head_ && chunk + 1 == chunks_.size(); }
    /// What a forward pass reads after a block, where that is known: after the last one of a stage's chunk its table says what comes.
    [[nodiscard]] Optional<std::size_t> after(std::size_t block, std::size_t chunk) const {
        bool const is_last = block + 1 == static_cast<std::size_t>(chunks_[chunk].end);
        return is_last && (is_stage_ || !has_head_) ? Optional<std::size_t>() : Optional<std::size_t>(block + 1);
    }
    /// What a backward pass through a chunk reads first.
    [[nodiscard]] std::size_t first_back(std::size_t chunk) const {
        return has_head(chunk) ? head_number() : static_cast<std::size_t>(chunks_[chunk].end) - 1;
    }
    /// Blocks, and the head after them.
    [[nodiscard]] std::size_t size() const { return parts_.size(); }
    [[nodiscard]] std::size_t head_number() const { return parts_.size() - 1; }
    [[nodiscard]] std::vector<Part> const& operator[](std::size_t layer) const { return parts_[layer]; }
    [[nodiscard]] TrainedBlock const& block(std::size_t number) const { return blocks_[number]; }
    [[nodiscard]] TrainedHead const& head() const { return head_; }
    /// Of the largest, and of the largest parameter or copy.
    [[nodiscard]] std::int64_t elements() const { return elements_; }
    [[nodiscard]] std::int64_t largest_parameter() const {
        std::int64_t most = 0;
        for (auto const& parts : parts_) {
            for (auto const& part : parts) most = std::max({most, part.elements, part.turned_elements});
        }
        return most;
    }

    /// What one of the ranks that share weights takes from the others where a layer is gathered.
    [[nodiscard]] CollectiveTraffic traffic(std::size_t layer, WeightStorage const& storage) const {
        CollectiveTraffic out;
        for (auto const& part : parts_[layer]) {
            if (part.elements > 0) out += traffic_of(part.elements, storage);
            if (part.turned_elements > 0) out += traffic_of(part.turned_elements, storage);
        }
        return out;
    }
    [[nodiscard]] static CollectiveTraffic traffic_of(std::int64_t elements, WeightStorage const& storage) {
        auto const& ranks = storage.shares;
        auto const others = elements - optimizer_share(elements, ranks.ranks, ranks.rank).size();
        return {1, others > 0 ? 1 : 0, others * storage.width()};
    }

private:
    [[nodiscard]] static std::size_t number_of(TrainingLayout const& layout, TrainedParameter const& parameter) {
        auto const parameters = layout.parameters().size();
        if (parameter.is_frozen) return parameters + parameter.number;
        return parameter.number < parameters ? parameter.number
                                             : layout.ties()[parameter.number - parameters].parameter;
    }
    [[nodiscard]] static TrainingParameter const& at(TrainingLayout const& layout, std::size_t number) {
        auto const parameters = layout.parameters().size();
        return number < parameters ? layout.parameters()[number] : layout.frozen()[number - parameters];
    }
    static Part* find(std::vector<Part>& parts, std::size_t parameter) {
        auto const found = std::find_if(parts.begin(), parts.end(),
                                        [parameter](Part const& part) { return part.parameter == parameter; });
        return found == parts.end() ? nullptr : &*found;
    }
    [[nodiscard]] static std::int64_t take(std::int64_t elements, std::int64_t& next) {
        auto const begin = next;
        next += round_up(elements, TrainingLayout::alignment);
        return begin;
    }
    static void place(TrainingLayout const& layout, TrainedParameter& parameter, std::vector<Part>& parts,
                      std::int64_t& next, bool is_read) {
        if (parameter.elements == 0) return;
        auto const number = number_of(layout, parameter);
        auto const& of = at(layout, number);
        if (find(parts, number) == nullptr)
            parts.push_back(
                {number, 0, 0, 0, 0, of.held ? &*of.held : nullptr, of.held_turned ? &*of.held_turned : nullptr});
        auto& part = *find(parts, number);
        if (is_read && part.elements == 0) {
            part.elements = of.words();
            part.begin = take(part.elements, next);
        }
        parameter.weight = part.begin;
        // Products of a layer are found by their places among its parts.
        if (parameter.held >= 0) parameter.held = &part - parts.data();
    }
    /// Where the copy lies of a weight that is placed.
    [[nodiscard]] static std::int64_t place_turned(TrainingLayout const& layout, TrainedParameter const& weight,
                                                   std::vector<Part>& parts, std::int64_t& next) {
        if (weight.elements == 0) return 0;
        auto const number = number_of(layout, weight);
        auto const elements = at(layout, number).turned_words();
        auto& part = *find(parts, number);
        if (elements > 0 && part.turned_elements == 0) {
            part.turned_begin = take(elements, next);
            part.turned_elements = elements;
        }
        return part.turned_begin;
    }

    std::vector<TrainedBlock> blocks_;
    TrainedHead head_;
    std::vector<std::vector<Part>> parts_;
    std::int64_t elements_ = 0;
    std::vector<UnitRange> chunks_;
    bool is_stage_ = false;
    bool has_head_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
