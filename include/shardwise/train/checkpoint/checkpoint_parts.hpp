// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/train/checkpoint/checkpoint_layout.hpp>
#include <shardwise/train/checkpoint/checkpoint_writer.hpp>
#include <shardwise/train/sharded_optimizer.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Elements of one tensor of a checkpoint, from `first` on, and where a rank has them in memory.
struct CheckpointPart {
    CheckpointPlace place;
    std::int64_t first = 0;
    Span<std::byte const> bytes;
    /// Whether the bytes are floats, to be rounded to the tensor's dtype.
    bool is_rounded = false;
};

/// Writes parts in their order.
///
/// Errors  as CheckpointWriter::write
template <class Calls>
[[nodiscard]] Result<> write_parts(CheckpointWriter<Calls>& writer, Span<CheckpointPart const> parts) {
    for (auto const& part : parts) {
        auto const* const floats = reinterpret_cast<float const*>(part.bytes.data());
        auto const done = part.is_rounded
                              ? writer.write_floats(part.place, part.first, {floats, part.bytes.size() / sizeof(float)})
                              : writer.write(part.place, part.first, part.bytes);
        if (!done) return done;
    }
    return {};
}

/// What a rank of a data-parallel group writes: of the weights, which all ranks have whole, and of the state, which they have whole or
/// by shares (ZeRO 1 and 2), its own shares. Ranks that cut models otherwise make such a list of their own.
///
/// Order   the bytes are those of `weights` and `optimizer`, which outlive the list
/// Errors  shape_mismatch where weights, optimizer and layout are not of one model
template <OptimizerRule Rule>
[[nodiscard]] Result<std::vector<CheckpointPart>> checkpoint_parts(CheckpointLayout const& layout,
                                                                   TrainingWeights const& weights,
                                                                   ShardedOptimizer<Rule>& optimizer,
                                                                   TensorPlace const& place = {}) {
    auto const& parameters = weights.layout().parameters();
    Error wrong{ErrorCode::shape_mismatch};
    wrong.in("checkpoint");
    if (optimizer.parameters().size() != parameters.size())
        return wrong.because("the optimizer has other parameters than the weights")
            .got(static_cast<std::int64_t>(optimizer.parameters().size()))
            .expected(static_cast<std::int64_t>(parameters.size()));
    std::vector<CheckpointPart> out;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        auto const& name = parameters[i].name;
        auto const elements = parameters[i].elements;
        if (optimizer.parameters()[i].name != name || optimizer.parameters()[i].weights.elements() != elements ||
            layout.tensor(layout.weight(i)).name != name)
            return wrong.at(name).because("is another parameter in the optimizer or in the layout");
        auto const held = optimizer.share(i);
        auto const range = held.size() == elements ? optimizer_share(elements, place.ranks, place.rank) : held;
        if (range.size() == 0) continue;
        auto const* const first = weights.values(i).data() + range.begin;
        Span<std::byte const> const bytes(reinterpret_cast<std::byte const*>(first),
                                          static_cast<std::size_t>(range.size()) * sizeof(float));
        out.push_back({layout.weight(i), range.begin, bytes, true});
        auto const master = layout.state("master." + name);
        if (master) out.push_back({*master, range.begin, bytes, false});
        if (!master && layout.has_masters()) return wrong.at(name).because("has no float32 weights in the layout");
        // How many elements of each array lie before the range, and before what this rank has.
        auto const& rule = optimizer.rule();
        auto const before = rule.state(elements, {0, range.begin});
        auto const unheld = rule.state(elements, {0, held.begin});
        std::size_t array = 0;
        for (auto const& mine : rule.state(elements, range)) {
            auto const state = layout.state(std::string(mine.name) + "." + name);
            if (!state) return wrong.at(name).because("has other state in the layout, of another optimizer");
            auto const width = static_cast<std::size_t>(layout.tensor(*state).width());
            auto const begin = before.arrays[array].elements;
            auto const skipped = static_cast<std::size_t>(begin - unheld.arrays[array].elements);
            Span<std::byte const> const memory = optimizer.state_memory(i, array++);
            out.push_back({*state,
                           begin,
                           {memory.data() + skipped * width, static_cast<std::size_t>(mine.elements) * width},
                           false});
        }
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
