// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The square root of a positive number; works in constant expressions.
[[nodiscard]] constexpr double square_root(double value) {
    double root = value > 1.0 ? value : 1.0;
    // Newton's iteration falls monotonically from above until it no longer changes.
    for (auto next = (root + value / root) / 2.0; next < root; next = (root + value / root) / 2.0) root = next;
    return root;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
