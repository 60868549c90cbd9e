// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/op/op_traits.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Rows of a table by id: no arithmetic; each row is read once and written once.
///
/// Shapes  in [rows, 1] ids, table [entries, width], out [rows, width]
struct EmbeddingOp : OpTraits<OpKind::embedding, OpUnit::vectors, OpWeights::table> {
    static constexpr std::string_view name = "embedding";
    [[nodiscard]] static constexpr GradientRule gradient(Operation const& op, Span<Value const>) {
        // Tables of words are sharded by rows; those of positions are small, and whole everywhere.
        bool const is_sharded = op.table().index == TableIndex::token;
        return {.parameters_read = {true}, .parameter_spread = is_sharded ? Spread::sharded : Spread::replicated};
    }

    [[nodiscard]] static constexpr OpWork work(Operation const& op, OpContext const& context) {
        return {.traffic = 2.0 * static_cast<double>(context.bytes(op.output).count())};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
