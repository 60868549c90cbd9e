// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// LoadOptions::share_largest over the tensor-parallel ranks, which outlive it.
[[nodiscard]] inline auto largest_of_ranks(HostCommunicator& group) {
    return [&group](std::span<float> values) {
        auto const count = static_cast<std::int64_t>(values.size());
        return all_reduce(group, TensorView<float, 1, Host>(values.data(), {count}), ReduceOp::max);
    };
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
