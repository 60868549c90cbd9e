// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/rows_launch.cuh>
#include <shardwise/kernels/layer_norm.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// By a kernel for elements, for packs of rows as wide as a warp's, and for packs of wider ones.
template <class Api, class T, class Weight>
Result<> launch_layer_norm_by(LayerNormCall<T, Weight> const& call, bool may_pack,
                              void (*const (&kernels)[3])(LayerNormCall<T, Weight>), typename Api::Stream stream) {
    bool const is_packed = may_pack && has_packs(call.in, call.rows, call.in_row, call.width) &&
                           has_packs(call.out, call.rows, call.out_row, call.width) && is_on_pack(call.weight) &&
                           is_on_pack(call.bias);
    auto const chosen =
        choose_rows<Api, void(LayerNormCall<T, Weight>)>(call.width, is_packed, kernels[0], kernels[1], kernels[2]);
    return launch_rows<Api>("layer_norm", chosen, call.rows, stream, call);
}

template <class Api, class T, class Weight>
Result<> launch_layer_norm(LayerNormCall<T, Weight> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    return launch_layer_norm_by<Api, T, Weight>(call, true,
                                                {SHARDWISE_KERNEL(centre_rows<Api, T, Weight, 1, false>),
                                                 SHARDWISE_KERNEL(centre_rows<Api, T, Weight, pack, false>),
                                                 SHARDWISE_KERNEL(centre_rows<Api, T, Weight, pack, true>)},
                                                stream);
}

/// The same of heads, which have no bias: as wide as a warp's rows, or unpacked.
template <class Api, class T>
Result<> launch_head_layer_norm(LayerNormCall<T, float> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    return launch_layer_norm_by<Api, T, float>(call, call.width <= narrow_row,
                                               {SHARDWISE_KERNEL(centre_heads<Api, T, float, 1, false>),
                                                SHARDWISE_KERNEL(centre_heads<Api, T, float, pack, false>),
                                                SHARDWISE_KERNEL(centre_heads<Api, T, float, pack, true>)},
                                               stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
