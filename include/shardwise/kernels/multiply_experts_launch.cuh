// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/kernel_list.hpp>
#include <shardwise/kernels/multiply_experts.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, WeightFormat format>
Result<> launch_multiply_experts_as(MultiplyExpertsCall const& call, typename Api::Stream stream) {
    // What is more runs in the kernel's loop.
    constexpr std::int64_t max_blocks = 1 << 20;
    constexpr std::int64_t block_outputs = multiply_threads / Api::warp_size * expert_outputs;
    auto const tiles = (call.outputs - 1) / block_outputs + 1;
    auto const blocks = tiles < max_blocks / call.rows ? tiles * call.rows : max_blocks;
    return launch_by_element<Api>("multiply_experts", call.in_element, [&](auto element) -> Result<> {
        return DeviceLaunch<Api>::launch("multiply_experts",
                                         SHARDWISE_KERNEL(multiply_expert_rows<Api, format, decltype(element)>), blocks,
                                         multiply_threads, stream, call);
    });
}

template <class Api>
Result<> launch_multiply_experts(MultiplyExpertsCall const& call, typename Api::Stream stream) {
    return launch_by_format<Api>("multiply_experts", call.format, [&](auto format) -> Result<> {
        return launch_multiply_experts_as<Api, decltype(format)::value>(call, stream);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
