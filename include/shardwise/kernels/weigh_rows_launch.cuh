// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/portions_launch.cuh>
#include <shardwise/kernels/weigh_rows.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_weigh_rows(WeighRowsCall<T> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    bool const is_packed = has_packs(call.in, call.pairs / call.chosen, call.in_row, call.width) &&
                           has_packs(call.out, call.pairs, call.out_row, call.width);
    return launch_portions<Api, WeighRowsCall<T>>("weigh_rows", SHARDWISE_KERNEL(weigh_portions<T, 1>),
                                                  SHARDWISE_KERNEL(weigh_portions<T, pack>), pack, is_packed,
                                                  call.pairs, call.width, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
