// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <variant>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Calls visit(weight) for what the products of a held block read, always in the same order.
template <class Block, class Visit>
void for_each_weight(Block& block, Visit const& visit) {
    for (auto& operation : block.operations) {
        std::visit(
            [&](auto& held) {
                if constexpr (requires { held.for_each_weight(visit); }) held.for_each_weight(visit);
            },
            operation.held);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
