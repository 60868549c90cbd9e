// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The order in which experts compute rows, in the memory that op/route.hpp counts for it (routing_table_bytes). A pair is a
/// token and one of its experts, numbered token * experts_per_token + i; its row stands by expert and then by token.
struct RoutingTable {
    /// By row its token, or by pair its row.
    std::span<std::int32_t> order;
    /// By expert its first row, and the end of the last.
    std::span<std::int32_t> first;
};

/// Which way a table leads.
enum class RoutingOrder : std::uint8_t { token_of_row, row_of_pair };

/// Lays a table out at `memory`, for the experts that a router chose.
///
/// Shapes  ids [tokens, experts_per_token], each below `experts`; memory [tokens * experts_per_token + experts + 1]
[[nodiscard]] inline RoutingTable make_routing_table(TensorView<std::int32_t const, 2, Host> ids, std::int64_t experts,
                                                     RoutingOrder order, std::int32_t* memory) {
    auto const tokens = ids.extent(0);
    auto const chosen = ids.extent(1);
    auto const at = [](auto number) { return static_cast<std::size_t>(number); };
    RoutingTable const table{{memory, at(tokens * chosen)}, {memory + tokens * chosen, at(experts + 1)}};
    auto const first = table.first;
    for (auto& row : first) row = 0;
    for (std::int64_t token = 0; token < tokens; ++token) {
        for (std::int64_t i = 0; i < chosen; ++i) ++first[at(ids.row(token)[i]) + 1];
    }
    for (std::size_t expert = 1; expert < first.size(); ++expert) first[expert] += first[expert - 1];
    for (std::int64_t token = 0; token < tokens; ++token) {
        for (std::int64_t i = 0; i < chosen; ++i) {
            auto const row = first[at(ids.row(token)[i])]++;
            if (order == RoutingOrder::token_of_row)
                table.order[at(row)] = static_cast<std::int32_t>(token);
            else
                table.order[at(token * chosen + i)] = row;
        }
    }
    // Each has become the first of the next.
    for (auto expert = first.size() - 1; expert > 0; --expert) first[expert] = first[expert - 1];
    first[0] = 0;
    return table;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
