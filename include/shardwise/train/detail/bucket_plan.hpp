// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/train/buckets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// In which buckets the gradients of a leaf are exchanged, in the order in which its backward pass ends them: each a list of parameters
/// and, by the numbers after those, of ties; of a chunk of a pipeline's rank, by their numbers among its own.
struct BucketPlan {
    struct Chunk {
        List<Bucket> buckets;
        /// By bucket the block with which it is whole; after the last block's number comes the head's.
        List<std::int64_t> ends;
        /// The block with which the pass ends.
        std::int64_t first = 0;

        /// Those that are whole before a backward pass ends.
        [[nodiscard]] std::size_t early() const {
            std::size_t count = 0;
            while (count < ends.size() && ends[count] > first) ++count;
            return count;
        }
    };
    /// None: all gradients of a chunk are one bucket.
    std::vector<Chunk> chunks;

    [[nodiscard]] Chunk of(std::size_t chunk) const { return chunk < chunks.size() ? chunks[chunk] : Chunk{}; }
    /// Whether something can be exchanged while a backward pass goes on: of several chunks one while the other's does.
    [[nodiscard]] bool has_early() const {
        return chunks.size() > 1 ||
               std::any_of(chunks.begin(), chunks.end(), [](Chunk const& each) { return each.early() > 0; });
    }

    [[nodiscard]] static BucketPlan create(TrainingProgram const& program, BucketLimits const& limits) {
        BucketPlan out;
        auto const blocks = ends_of(program);
        auto const& layout = program.layout();
        for (std::size_t chunk = 0; chunk < layout.chunks().size(); ++chunk) {
            auto const own = layout.chunks()[chunk];
            List<BucketTensor> tensors;
            List<std::int64_t> ends;
            auto const add = [&](std::int64_t begin, std::int64_t elements, std::size_t number) {
                if (begin < own.begin || begin >= own.end) return;
                tensors.push_back({.elements = elements});
                ends.push_back(blocks[number]);
            };
            auto const parameters = layout.parameters().size();
            for (std::size_t i = 0; i < parameters; ++i)
                add(layout.parameters()[i].begin, layout.parameters()[i].elements, i);
            for (std::size_t i = 0; i < layout.ties().size(); ++i) {
                auto const& tie = layout.ties()[i];
                add(tie.begin, layout.parameters()[tie.parameter].elements, parameters + i);
            }
            out.chunks.push_back(assign(tensors, ends, program.chunks()[chunk].begin, limits));
        }
        return out;
    }

private:
    [[nodiscard]] static Chunk assign(List<BucketTensor> const& tensors, List<std::int64_t> const& blocks,
                                      std::int64_t first, BucketLimits const& limits) {
        Chunk out;
        out.first = first;
        List<std::int32_t> order;
        for (std::size_t i = tensors.size(); i-- > 0;) order.push_back(static_cast<std::int32_t>(i));
        std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
            return blocks[static_cast<std::size_t>(a)] > blocks[static_cast<std::size_t>(b)];
        });
        Bytes const both[] = {limits.first, limits.cap};
        auto made = assign_buckets(tensors, both, order);
        // Sizes and limits were checked.
        if (!made) return out;
        out.buckets = std::move(*made);
        for (auto const& bucket : out.buckets) {
            auto end = blocks[static_cast<std::size_t>(bucket[0])];
            for (auto const tensor : bucket) end = std::min(end, blocks[static_cast<std::size_t>(tensor)]);
            out.ends.push_back(end);
        }
        return out;
    }
    /// By gradient the block with which it is whole: the first that writes it, as a backward pass goes from the last to the first.
    [[nodiscard]] static List<std::int64_t> ends_of(TrainingProgram const& program) {
        auto const& layout = program.layout();
        List<std::int64_t> out(layout.parameters().size() + layout.ties().size(), 0);
        auto const end = [&](TrainedParameter const& parameter, std::int64_t block) {
            if (parameter.elements > 0 && !parameter.is_frozen) out[parameter.number] = block;
        };
        auto const& blocks = program.blocks();
        end(program.head().weight, static_cast<std::int64_t>(blocks.size()));
        end(program.head().bias, static_cast<std::int64_t>(blocks.size()));
        for (std::size_t i = blocks.size(); i-- > 0;) {
            for (auto const& operation : blocks[i].operations) {
                for (auto const& parameter : operation.parameters) end(parameter, static_cast<std::int64_t>(i));
            }
        }
        return out;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
