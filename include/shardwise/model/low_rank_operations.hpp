// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/block_program.hpp>
#include <shardwise/model/low_rank_names.hpp>
#include <shardwise/op/operation.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The two halves of a low-rank adapter beside a product, as operations of its block.
struct LowRankProduct {
    std::int64_t rank = 0;
    /// alpha / rank.
    double scale = 1.0;
    /// The halves' names in the block: A [rank, inputs], B [outputs, rank].
    std::string_view a;
    std::string_view b;
    /// Of what A makes, and of what B makes.
    Spread low = Spread::replicated;
    Spread high = Spread::replicated;
    /// What A reads; nothing: what the product reads.
    ValueId in = no_value;
};

/// Appends what dropout leaves of a value: an operation that copies it, and drops elements where a pass says so (`is_low_rank_dropout`).
[[nodiscard]] inline ValueId append_low_rank_dropout(BlockBody& out, ValueId in) {
    auto left = out.values()[static_cast<std::size_t>(in)];
    left.name = "low_rank_input";
    left.is_external = false;
    Operation copy;
    copy.kind = OpKind::scale;
    copy.details = ScaleFactor{};
    copy.inputs[0] = in;
    copy.output = out.value(left);
    (void)out.append(copy);
    return copy.output;
}
/// Whether an operation makes what a half A alone reads.
[[nodiscard]] inline bool is_low_rank_dropout(Operation const& op, BlockBody const& body) {
    if (op.kind != OpKind::scale || op.inputs[0] == op.output) return false;
    std::size_t readers = 0;
    bool is_read_by_a = false;
    for (auto const& other : body.operations()) {
        for (auto const in : other.inputs) {
            if (in != op.output) continue;
            ++readers;
            is_read_by_a = other.kind == OpKind::linear && is_low_rank_a(other.parameters[0]);
        }
    }
    return readers == 1 && is_read_by_a;
}

/// Appends A, the scale, B and a sum behind the product `op` of `body`, which is the last operation of `out`.
inline void append_low_rank(BlockBody& out, BlockBody const& body, Operation const& op, LowRankProduct const& product) {
    auto const& in = body.values()[static_cast<std::size_t>(op.inputs[0])];
    auto const low = out.value({.name = "low_rank", .rows = in.rows, .width = product.rank, .spread = product.low});
    auto made = body.values()[static_cast<std::size_t>(op.output)];
    made.spread = product.high;
    auto const high = out.value(made);
    auto const multiply = [&out](ValueId from, ValueId to, std::string_view parameter, std::int64_t inputs,
                                 std::int64_t outputs, OpDetails const& details) {
        Operation half{.details = details};
        half.kind = OpKind::linear;
        half.inputs[0] = from;
        half.output = to;
        half.parameters[0] = parameter;
        half.in_features = inputs;
        half.out_features = outputs;
        (void)out.append(half);
    };
    multiply(product.in == no_value ? op.inputs[0] : product.in, low, product.a, op.in_features, product.rank, {});
    Operation scale;
    scale.kind = OpKind::scale;
    scale.inputs[0] = low;
    scale.output = low;
    scale.details = ScaleFactor{product.scale};
    (void)out.append(scale);
    // The rows of B are those of the weight.
    multiply(low, high, product.b, product.rank, op.out_features, op.details);
    Operation sum;
    sum.kind = OpKind::add;
    sum.inputs = {op.output, high, no_value, no_value};
    sum.output = op.output;
    (void)out.append(sum);
}

/// What the sum behind a half B adds to: the product whose rows it has.
[[nodiscard]] inline ValueId low_rank_product(Operation const& half, BlockBody const& body) {
    for (auto const& op : body.operations()) {
        if (op.kind == OpKind::add && op.inputs[1] == half.output) return op.inputs[0];
    }
    return half.output;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
