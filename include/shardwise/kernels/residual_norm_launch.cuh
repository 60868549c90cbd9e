// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/rows_launch.cuh>
#include <shardwise/kernels/residual_norm.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T, class Weight>
Result<> launch_residual_norm(ResidualNormCall<T, Weight> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    auto const& norm = call.norm;
    bool is_packed = has_packs(norm.in, norm.rows, norm.in_row, norm.width) &&
                     has_packs(norm.out, norm.rows, norm.out_row, norm.width) && is_on_pack(norm.weight);
    for (std::int64_t part = 0; part < call.count; ++part) is_packed = is_packed && is_on_pack(call.parts[part]);
    auto const chosen = choose_norm<Api, void(ResidualNormCall<T, Weight>)>(
        norm.width, pack, is_packed, SHARDWISE_KERNEL(add_and_normalise_rows<Api, T, Weight, 1, false>),
        SHARDWISE_KERNEL(add_and_normalise_rows<Api, T, Weight, pack, false>),
        SHARDWISE_KERNEL(add_and_normalise_rows<Api, T, Weight, pack, true>));
    return launch_rows<Api>("residual_norm", chosen, norm.rows, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
