// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/backend/device_format.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/multiply_sums.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, WeightFormat format, int rows, int outputs, bool is_aligned>
Result<> launch_multiply_sums_rows(MultiplySumsCall const& call, typename Api::Stream stream) {
    // What is more runs in the kernel's loop.
    constexpr std::int64_t max_blocks = 1 << 20;
    constexpr std::int64_t block_outputs = multiply_threads / Api::warp_size * outputs;
    auto const& product = call.product;
    auto const blocks = ((product.weight.outputs - 1) / block_outputs + 1) * ((product.rows - 1) / rows + 1);
    auto* const kernel = product.in_element == RowElement::f32
                             ? &multiply_sums<Api, format, rows, outputs, is_aligned, float>
                             : &multiply_sums<Api, format, rows, outputs, is_aligned, std::uint16_t>;
    return DeviceLaunch<Api>::launch("multiply_sums", kernel, std::min(blocks, max_blocks), multiply_threads, stream,
                                     call);
}

template <class Api, WeightFormat format>
Result<> launch_multiply_sums_if_run(MultiplySumsCall const& call, typename Api::Stream stream) {
    if constexpr (has_device_products(format)) {
        constexpr int most = MultiplyStage<Api, format>::max_rows;
        if constexpr (DeviceChunk<format>::begins_anywhere) {
            // Ranges that begin on no pack.
            bool is_aligned = true;
            for (int leaf = 0; leaf < call.leaves; ++leaf)
                is_aligned = is_aligned && std::int64_t{call.begins[leaf]} * call.quant_bits % 128 == 0;
            if (!is_aligned)
                return launch_multiply_sums_rows<Api, format, std::min(4, most), multiply_outputs, false>(call, stream);
        }
        if (call.product.rows == 1) {
            constexpr int outputs = format == WeightFormat::q6_k ? 1 : 2;
            return launch_multiply_sums_rows<Api, format, 1, outputs, true>(call, stream);
        }
        return launch_multiply_sums_rows<Api, format, most, multiply_outputs, true>(call, stream);
    } else {
        return Error{ErrorCode::unsupported}.in("multiply").at(traits(format).name);
    }
}

template <class Api, std::size_t... format>
Result<> launch_multiply_sums_of(MultiplySumsCall const& call, typename Api::Stream stream,
                                 std::index_sequence<format...>) {
    using Launch = Result<> (*)(MultiplySumsCall const&, typename Api::Stream);
    constexpr Launch launches[] = {&launch_multiply_sums_if_run<Api, static_cast<WeightFormat>(format)>...};
    return launches[static_cast<std::size_t>(call.product.weight.format)](call, stream);
}

template <class Api>
Result<> launch_multiply_sums(MultiplySumsCall const& call, typename Api::Stream stream) {
    return launch_multiply_sums_of<Api>(call, stream, std::make_index_sequence<weight_format_count>{});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
