// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/rows_launch.cuh>
#include <shardwise/kernels/softmax.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_softmax(SoftmaxCall<T> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    bool const is_packed = has_packs(call.in, call.rows, call.in_row, call.width) &&
                           has_packs(call.out, call.rows, call.out_row, call.width);
    auto const chosen = choose_rows<Api, void(SoftmaxCall<T>)>(
        call.width, is_packed, SHARDWISE_KERNEL(softmax_rows<Api, T, 1, false>),
        SHARDWISE_KERNEL(softmax_rows<Api, T, pack, false>), SHARDWISE_KERNEL(softmax_rows<Api, T, pack, true>));
    return launch_rows<Api>("softmax", chosen, call.rows, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
