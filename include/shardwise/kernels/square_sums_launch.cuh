// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/portions_launch.cuh>
#include <shardwise/kernels/detail/rows_launch.cuh>
#include <shardwise/kernels/square_sums.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_sum_squares(SquareSumsCall<T> const& call, typename Api::Stream stream) {
    // By the largest piece of a whole row, which is the same for all ranks: it says in which order a piece is added up.
    auto const largest = ((call.grains - 1) / call.numbers + 1) * call.grain;
    bool const is_narrow = largest <= narrow_row && DeviceCode<Api>::has_own_warps;
    auto const chosen =
        is_narrow ? RowKernel<void(SquareSumsCall<T>)>{SHARDWISE_KERNEL(sum_squares_of_pieces<Api, T, true>),
                                                       narrow_rows<Api>}
                  : RowKernel<void(SquareSumsCall<T>)>{SHARDWISE_KERNEL(sum_squares_of_pieces<Api, T, false>), 1};
    return launch_rows<Api>("sum_squares", chosen, call.rows * call.numbers, stream, call);
}

template <class Api, class T>
Result<> launch_scale_by_squares(ScaleBySquaresCall<T> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    bool const is_packed = has_packs(call.in, call.rows, call.in_row, call.width) &&
                           has_packs(call.out, call.rows, call.out_row, call.width) && is_on_pack(call.weight);
    return launch_portions<Api, ScaleBySquaresCall<T>>("scale_by_squares", SHARDWISE_KERNEL(scale_by_square_sums<T, 1>),
                                                       SHARDWISE_KERNEL(scale_by_square_sums<T, pack>), pack, is_packed,
                                                       call.rows, call.width, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
