// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/rows_launch.cuh>
#include <shardwise/kernels/rms_norm.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// By a kernel for elements, for packs of rows as wide as a warp's, and for packs of wider ones.
template <class Api, class T, class Weight>
Result<> launch_rms_norm_by(RmsNormCall<T, Weight> const& call, bool may_pack,
                            void (*const (&kernels)[3])(RmsNormCall<T, Weight>), typename Api::Stream stream) {
    bool const is_packed = may_pack && has_packs(call.in, call.rows, call.in_row, call.width) &&
                           has_packs(call.out, call.rows, call.out_row, call.width) && is_on_pack(call.weight);
    auto const chosen = choose_norm<Api, void(RmsNormCall<T, Weight>)>(call.width, pack_elements<T>, is_packed,
                                                                       kernels[0], kernels[1], kernels[2]);
    return launch_rows<Api>("rms_norm", chosen, call.rows, stream, call);
}

template <class Api, class T, class Weight>
Result<> launch_rms_norm(RmsNormCall<T, Weight> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    return launch_rms_norm_by<Api, T, Weight>(call, true,
                                              {SHARDWISE_KERNEL(normalise_rows<Api, T, Weight, 1, false>),
                                               SHARDWISE_KERNEL(normalise_rows<Api, T, Weight, pack, false>),
                                               SHARDWISE_KERNEL(normalise_rows<Api, T, Weight, pack, true>)},
                                              stream);
}

/// The same of heads: as wide as a warp's rows, or unpacked.
template <class Api, class T>
Result<> launch_head_norm(RmsNormCall<T, float> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    return launch_rms_norm_by<Api, T, float>(call, call.width <= narrow_row,
                                             {SHARDWISE_KERNEL(normalise_heads<Api, T, float, 1, false>),
                                              SHARDWISE_KERNEL(normalise_heads<Api, T, float, pack, false>),
                                              SHARDWISE_KERNEL(normalise_heads<Api, T, float, pack, true>)},
                                             stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
