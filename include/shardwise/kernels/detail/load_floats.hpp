// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/kernels/detail/pack.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Neighbours of a row of floats, of which there are whole packs where there is more than one.
template <unsigned width>
SHARDWISE_DEVICE void load_floats(float const* from, float (&values)[width]) {
    if constexpr (width == 1) {
        values[0] = *from;
    } else {
        SHARDWISE_DEVICE_UNROLL
        for (unsigned four = 0; four < width / 4; ++four) {
            float some[4];
            widen_pack(load_pack(from + 4 * four), some);
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < 4; ++i) values[4 * four + i] = some[i];
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
