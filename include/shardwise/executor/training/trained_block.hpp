// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/split.hpp>
#include <shardwise/executor/training/tensor_cuts.hpp>
#include <shardwise/op/head_share.hpp>
#include <shardwise/op/product_sums.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A parameter as one operation knows it.
///
/// Units   floats from the begin of the weights and of a leaf's gradients
struct TrainedParameter {
    std::int64_t weight = 0;
    std::int64_t gradient = 0;
    /// 0: the operation has none.
    std::int64_t elements = 0;
    /// Of its gradient among the layout's parameters and, after them, ties.
    std::size_t number = 0;
    /// It is read alone.
    bool is_frozen = false;
    /// Of a product or table that is held in a format of its own, its number among what is frozen; else -1.
    std::int64_t held = -1;
};

/// Rows of a weight that make columns of a value, one after another.
struct WeightRows {
    UnitRange rows;
    std::int64_t column = 0;
};

struct TrainedOperation {
    std::array<TrainedParameter, 4> parameters{};
    /// Of a product: all rows in one piece as a rule; apart where heads' queries, keys and values lie together (gpt_neox, falcon).
    std::vector<WeightRows> rows;
    /// True where the weight is [inputs, outputs] (gpt2's Conv1D).
    bool is_transposed = false;
    /// Of a product that tensor-parallel ranks share: how, the copy of the weight that is cut along the other axis, and the rows of all
    /// ranks' as `rows` are of this one's.
    TrainedCut cut = TrainedCut::none;
    std::int64_t turned = 0;
    std::int64_t turned_elements = 0;
    std::vector<WeightRows> whole_rows;
    /// Of a product that ranks of a run share, how a run sums it.
    ProductSums run_sums{};
    /// Of an attention whose key-value heads several ranks read: all query heads, and by rank those that it has.
    std::int64_t heads = 0;
    std::vector<HeadShare> shares;
};

/// How tensor-parallel ranks hold a value: the columns of each rank, in the order in which they lie in its memory.
struct SharedValue {
    std::int64_t width = 0;
    /// By rank; empty where every rank has all of them.
    std::vector<std::vector<UnitRange>> columns;

    [[nodiscard]] bool is_whole() const { return columns.empty(); }
};

/// A block of a model, as it is trained.
struct TrainedBlock {
    /// Of its body in the program.
    std::size_t body = 0;
    /// Of a layer, its number.
    std::int32_t number = 0;
    std::vector<TrainedOperation> operations;
};

/// The head: logits = in * weight^T + bias of what its block makes.
struct TrainedHead {
    TrainedParameter weight;
    TrainedParameter bias;
    std::int64_t vocabulary = 0;
    std::int64_t hidden = 0;
    /// The rows that this rank has, and the copy of its columns of all rows; where ranks share it.
    UnitRange rows{};
    std::int64_t turned = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
