// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/kernel_list.hpp>
#include <shardwise/kernels/detail/portions_launch.cuh>
#include <shardwise/kernels/embedding.cuh>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api>
Result<> launch_weight_rows(std::string_view name, WeightRowsCall const& call, typename Api::Stream stream) {
    return launch_by_format<Api>(name, call.table.format, [&](auto format) -> Result<> {
        constexpr unsigned elements = DeviceChunk<decltype(format)::value>::elements;
        auto* const kernel = SHARDWISE_KERNEL(decode_table_rows<decltype(format)::value>);
        auto const chunks = (call.table.inputs + elements - 1) / elements;
        return launch_portions<Api, WeightRowsCall>(name, kernel, kernel, elements, true, call.tokens,
                                                    chunks * elements, stream, call);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
