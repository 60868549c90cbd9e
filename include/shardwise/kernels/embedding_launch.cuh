// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_format.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/kernel_list.hpp>
#include <shardwise/kernels/detail/portions_launch.cuh>
#include <shardwise/kernels/embedding.cuh>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// By the format's kernel; hold_weight makes no weight of a format that has none.
template <class Api, WeightFormat format>
Result<> launch_weight_rows_if_run(WeightRowsCall const& call, typename Api::Stream stream) {
    if constexpr (!has_device_products(format)) {
        return Error{ErrorCode::unsupported}.in("embedding").at(name_of(format));
    } else if constexpr (!kernel_list<Api>.has(format)) {
        return left_out("embedding", name_of(format));
    } else {
        constexpr unsigned elements = DeviceChunk<format>::elements;
        auto const chunks = (call.table.inputs + elements - 1) / elements;
        return launch_portions<Api, WeightRowsCall>("embedding", &decode_table_rows<format>, &decode_table_rows<format>,
                                                    elements, true, call.tokens, chunks * elements, stream, call);
    }
}

template <class Api, std::size_t... format>
Result<> launch_weight_rows_of(WeightRowsCall const& call, typename Api::Stream stream,
                               std::index_sequence<format...>) {
    using Launch = Result<> (*)(WeightRowsCall const&, typename Api::Stream);
    constexpr Launch launches[] = {&launch_weight_rows_if_run<Api, static_cast<WeightFormat>(format)>...};
    return launches[static_cast<std::size_t>(call.table.format)](call, stream);
}

template <class Api>
Result<> launch_weight_rows(WeightRowsCall const& call, typename Api::Stream stream) {
    return launch_weight_rows_of<Api>(call, stream, std::make_index_sequence<weight_format_count>{});
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
