// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/portions.cuh>
#include <shardwise/kernels/detail/rope_turns_call.hpp>
#include <shardwise/kernels/detail/turns.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <unsigned width>
__global__ void __launch_bounds__(row_threads, 2) make_turns(RopeTurnsCall call, PortionGrid grid) {
    static_assert(width == 1, "a thread makes one pair's");
    for_portions<width>(grid, call.tokens, call.pairs, [&](std::int64_t token, std::int64_t pair) {
        auto const turn = turn_of(call.positions[token], call.frequencies[pair]);
        auto* const cosines = call.turns + token * call.turns_row;
        cosines[pair] = turn.cosine * call.scale;
        cosines[call.pairs + pair] = turn.sine * call.scale;
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
