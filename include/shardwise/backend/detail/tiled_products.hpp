// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_calls.hpp>
#include <shardwise/core/result.hpp>

#include <memory>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Products by our own kernel, where no vendor's library is at hand.
template <class Api>
class TiledProducts {
public:
    [[nodiscard]] static Result<std::unique_ptr<TiledProducts>> open() { return std::make_unique<TiledProducts>(); }

    template <class T>
    [[nodiscard]] Result<> multiply(GemmCall const& call, typename Api::Stream stream) {
        return launch_gemm<Api, T>(call, stream);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
