// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a vendor's product may do and use beside a GemmCall.
struct ProductAid {
    /// A number for each column of the result, which the product may add; null: none.
    float const* bias = nullptr;
    /// Lent to the stream: what runs in it uses this one after another. Empty: only algorithms without any are taken.
    std::span<std::byte> workspace;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
