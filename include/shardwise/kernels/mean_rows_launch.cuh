// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/portions_launch.cuh>
#include <shardwise/kernels/mean_rows.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_mean_rows(MeanRowsCall<T> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    bool const is_packed = has_packs(call.in, call.in_rows, call.in_row, call.width) &&
                           has_packs(call.out, call.rows, call.out_row, call.width);
    return launch_portions<Api, MeanRowsCall<T>>("mean_rows", SHARDWISE_KERNEL(mean_portions<T, 1>),
                                                 SHARDWISE_KERNEL(mean_portions<T, pack>), pack, is_packed, call.rows,
                                                 call.width, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
