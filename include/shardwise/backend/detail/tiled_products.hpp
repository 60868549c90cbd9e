// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_calls.hpp>
#include <shardwise/backend/detail/product_aid.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Products by our own kernel, where no vendor's library is at hand.
template <class Api>
class TiledProducts {
public:
    /// It uses nothing beside the matrices.
    static constexpr std::int64_t workspace_bytes = 0;
    static constexpr bool is_vendors = false;

    [[nodiscard]] Result<> open() { return {}; }

    /// Never with the bias: false.
    template <class T>
    [[nodiscard]] Result<bool> multiply(GemmCall const& call, ProductAid const&, typename Api::Stream stream) {
        auto const launched = launch_gemm<Api, T>(call, stream);
        if (!launched) return launched.error();
        return false;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
