// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The order in which experts compute rows (kernels/order_experts.hpp), in the memory that op/route.hpp counts for it
/// (routing_table_bytes).
template <ComputeBackend Backend>
struct RoutingTable {
    /// By row its token, or by pair its row.
    TensorView<std::int32_t, 1, Backend> order;
    /// By expert its first row, and the end of the last.
    TensorView<std::int32_t, 1, Backend> first;

    /// Shapes  memory [pairs + experts + 1]
    RoutingTable(std::int32_t* memory, std::int64_t pairs, std::int64_t experts)
        : order(memory, {pairs}), first(memory + pairs, {experts + 1}) {}
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
