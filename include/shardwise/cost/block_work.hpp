// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/activations.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one block costs in one step on one rank.
///
/// Units  floating-point operations and bytes
struct BlockWork {
    double flops = 0.0;
    /// Activations read and written.
    double traffic = 0.0;
    /// Read from the key-value cache.
    double kv_read = 0.0;
    /// The share of the rank's expert weights that the step reads: no more experts than routed rows. 1 without experts.
    double expert_share = 1.0;
    /// The share of an embedding's table that the step reads: one row per token. 1 for everything else.
    double table_share = 1.0;
    /// What the block hands to the next one: the message where a device map cuts here.
    Bytes output{};

    /// The bytes that the step moves, given what the block's tables, experts and other weights take.
    [[nodiscard]] constexpr double bytes(Bytes dense, Bytes experts = {}, Bytes tables = {}) const {
        return traffic + kv_read + static_cast<double>(dense.count()) +
               expert_share * static_cast<double>(experts.count()) + table_share * static_cast<double>(tables.count());
    }
};

/// The sum over a block's operations.
[[nodiscard]] constexpr BlockWork block_work(BlockBody const& body, Step const& step, OpRank const& rank = {}) {
    auto const context = op_context(body, step, rank);
    BlockWork work;
    double rows_read = 0.0;
    double rows_held = 0.0;
    for (auto const& op : body.operations()) {
        auto const cost = op_work(op, context);
        work.flops += cost.flops;
        work.traffic += cost.traffic;
        work.kv_read += cost.kv_read;
        if (op.kind == OpKind::experts && context.local_experts() > 0) {
            work.expert_share =
                static_cast<double>(experts_touched(context)) / static_cast<double>(context.local_experts());
        }
        if (op.kind == OpKind::embedding && op.in_features > 0) {
            auto const rows = context.rows(context.value(op.output));
            rows_read += static_cast<double>(rows < op.in_features ? rows : op.in_features) *
                         static_cast<double>(op.out_features);
            rows_held += static_cast<double>(op.in_features) * static_cast<double>(op.out_features);
        }
    }
    if (rows_held > 0.0) work.table_share = rows_read / rows_held;
    if (!body.operations().empty()) work.output = context.bytes(body.operations().back().output);
    return work;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
