// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/backend/device_format.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/kernel_list.hpp>
#include <shardwise/kernels/multiply_experts.cuh>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, WeightFormat format>
Result<> launch_multiply_experts_as(MultiplyExpertsCall const& call, typename Api::Stream stream) {
    if constexpr (!has_device_products(format)) {
        return Error{ErrorCode::unsupported}.in("multiply_experts").at(name_of(format));
    } else if constexpr (!kernel_list<Api>.has(format)) {
        return left_out("multiply_experts", name_of(format));
    } else {
        // What is more runs in the kernel's loop.
        constexpr std::int64_t max_blocks = 1 << 20;
        constexpr std::int64_t block_outputs = multiply_threads / Api::warp_size * expert_outputs;
        auto const tiles = (call.outputs - 1) / block_outputs + 1;
        auto const blocks = tiles < max_blocks / call.rows ? tiles * call.rows : max_blocks;
        return launch_by_element<Api>("multiply_experts", call.in_element, [&](auto element) -> Result<> {
            return DeviceLaunch<Api>::launch("multiply_experts", &multiply_expert_rows<Api, format, decltype(element)>,
                                             blocks, multiply_threads, stream, call);
        });
    }
}

template <class Api, std::size_t... format>
Result<> launch_multiply_experts_of(MultiplyExpertsCall const& call, typename Api::Stream stream,
                                    std::index_sequence<format...>) {
    using Launch = Result<> (*)(MultiplyExpertsCall const&, typename Api::Stream);
    constexpr Launch launches[] = {&launch_multiply_experts_as<Api, static_cast<WeightFormat>(format)>...};
    return launches[static_cast<std::size_t>(call.format)](call, stream);
}

template <class Api>
Result<> launch_multiply_experts(MultiplyExpertsCall const& call, typename Api::Stream stream) {
    return launch_multiply_experts_of<Api>(call, stream, std::make_index_sequence<weight_format_count>{});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
