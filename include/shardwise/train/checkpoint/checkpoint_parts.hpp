// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/train/checkpoint/checkpoint_layout.hpp>
#include <shardwise/train/checkpoint/checkpoint_writer.hpp>
#include <shardwise/train/sharded_optimizer.hpp>

#include <algorithm>
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
    /// Of a mapped file (offload): they are taken out of memory once they are written.
    bool is_mapped = false;
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
        if (part.is_mapped) detail::drop_pages(part.bytes);
    }
    return {};
}

/// The elements of a parameter that a rank writes, of those that it holds: what other ranks hold, too, is shared among them. `held` are
/// those that it has the optimizer's state of, `world` is among all ranks. Of what two stages have the one that reads its first name writes.
[[nodiscard]] inline std::vector<UnitRange> written_ranges(TrainingParameter const& parameter,
                                                           TrainingPlace const& tensor, UnitRange held,
                                                           TensorPlace const& world) {
    if (parameter.is_copy) return {};
    auto const place = tensor.in_stage(world);
    auto const elements = parameter.elements;
    bool const has_all = held.size() == elements;
    if (!parameter.cut.is_whole() || tensor.ranks == 1) {
        TensorPlace const data{place.ranks / tensor.ranks, place.rank / tensor.ranks};
        auto const range = has_all ? optimizer_share(elements, data.ranks, data.rank) : held;
        return parameter.counted_of(range);
    }
    if (has_all) return parameter.counted_of(optimizer_share(elements, place.ranks, place.rank));
    // Every tensor-parallel rank has the same share.
    return tensor.rank == 0 ? parameter.counted_of(held) : std::vector<UnitRange>{};
}

/// What a rank writes of the weights and of the optimizer's state, each of which it has whole, by shares (ZeRO) or by the columns
/// and rows of a tensor-parallel rank. `place` is among all ranks.
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
        auto const& tensor = weights.layout().place();
        if (optimizer.parameters()[i].name != name || optimizer.parameters()[i].elements() != elements ||
            layout.tensor(layout.weight(parameters[i].number)).name != name)
            return wrong.at(name).because("is another parameter in the optimizer or in the layout");
        auto const held = optimizer.share(i);
        auto const ranges = written_ranges(parameters[i], tensor, held, place);
        if (ranges.empty()) continue;
        auto const master = layout.state("master." + name);
        if (!master && layout.has_masters()) return wrong.at(name).because("has no float32 weights in the layout");
        auto const& storage = weights.storage();
        auto const* const values = weights.memory(i).begin();
        auto const width = static_cast<std::size_t>(storage.width());
        // One part for elements that lie together in the file.
        parameters[i].for_each_block_run(ranges, 1, [&](std::int64_t whole, std::int64_t own, std::int64_t count) {
            auto const at = static_cast<std::size_t>(own - weights.shares()[i].own.begin);
            Span<std::byte const> const bytes(values + at * width, static_cast<std::size_t>(count) * width);
            out.push_back({layout.weight(parameters[i].number), whole, bytes, !storage.is_half(), storage.is_mapped()});
            if (master) out.push_back({*master, whole, bytes, false, storage.is_mapped()});
        });
        std::size_t array = 0;
        for (auto const& mine : optimizer.state(i)) {
            auto const state = layout.state(std::string(mine.name) + "." + name);
            if (!state) return wrong.at(name).because("has other state in the layout, of another optimizer");
            auto const state_width = static_cast<std::size_t>(layout.tensor(*state).width());
            auto const* const from = optimizer.state_memory(i, array++).data();
            auto const unheld = held.begin / mine.block;
            parameters[i].for_each_block_run(
                ranges, mine.block, [&](std::int64_t whole, std::int64_t own, std::int64_t count) {
                    auto const skip = static_cast<std::size_t>(own - unheld) * state_width;
                    out.push_back({*state,
                                   whole,
                                   {from + skip, static_cast<std::size_t>(count) * state_width},
                                   false,
                                   optimizer.is_offloaded()});
                });
        }
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
