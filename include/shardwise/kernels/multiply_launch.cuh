// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/backend/device_format.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/multiply.cuh>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, WeightFormat format>
Result<> launch_multiply_as(MultiplyCall const& call, typename Api::Stream stream) {
    constexpr std::int64_t max_blocks = 1 << 16;
    constexpr std::int64_t warps = multiply_threads / Api::warp_size;
    auto const tiles = (call.weight.outputs + warps - 1) / warps;
    auto const blocks = tiles < max_blocks ? tiles : max_blocks;
    auto const kernel = call.rows == 1 ? &multiply_rows<Api, format, 1> : &multiply_rows<Api, format, 4>;
    return DeviceLaunch<Api>::launch("multiply", kernel, blocks, multiply_threads, stream, call);
}

/// By the format's kernel; hold_weight makes no weight of a format that has none.
template <class Api, WeightFormat format>
Result<> launch_multiply_if_run(MultiplyCall const& call, typename Api::Stream stream) {
    if constexpr (has_device_products(format)) {
        return launch_multiply_as<Api, format>(call, stream);
    } else {
        return Error{ErrorCode::unsupported}.in("multiply").at(traits(format).name);
    }
}

template <class Api, std::size_t... format>
Result<> launch_multiply_of(MultiplyCall const& call, typename Api::Stream stream, std::index_sequence<format...>) {
    using Launch = Result<> (*)(MultiplyCall const&, typename Api::Stream);
    constexpr Launch launches[] = {&launch_multiply_if_run<Api, static_cast<WeightFormat>(format)>...};
    return launches[static_cast<std::size_t>(call.weight.format)](call, stream);
}

template <class Api>
Result<> launch_multiply(MultiplyCall const& call, typename Api::Stream stream) {
    return launch_multiply_of<Api>(call, stream, std::make_index_sequence<weight_format_count>{});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
