// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/train/buckets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// In which buckets the gradients of a leaf are exchanged, in the order in which its backward pass ends them: each a list of parameters
/// and, by the numbers after those, of ties.
struct BucketPlan {
    List<Bucket> buckets;
    /// By bucket the block with which it ends; after the last block's number comes the head's.
    List<std::int64_t> ends;

    /// Of stages there are none: micro-batches pass each other there. So far.
    [[nodiscard]] static BucketPlan create(TrainingProgram const& program, BucketLimits const& limits) {
        BucketPlan out;
        if (program.place().pipeline.stages > 1) return out;
        auto const blocks = ends_of(program);
        List<BucketTensor> tensors;
        List<std::int32_t> order;
        auto const& layout = program.layout();
        for (auto const& parameter : layout.parameters()) tensors.push_back({.elements = parameter.elements});
        for (auto const& tie : layout.ties())
            tensors.push_back({.elements = layout.parameters()[tie.parameter].elements});
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

private:
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
