// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/rope.cuh>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T>
Result<> launch_rope(RopeCall<T> const& call, typename Api::Stream stream) {
    // Some blocks for each multiprocessor; more tokens are taken in turn, fewer leave heads to share.
    constexpr std::int64_t many_blocks = 1024;
    constexpr unsigned pack = pack_elements<T>;
    bool const is_packed =
        has_packs(call.values, call.tokens, call.row, call.head_dim) && call.pairs % pack == 0 &&
        call.first % pack == 0 &&
        (call.turns == nullptr || has_packs(call.turns, call.tokens, call.turns_row, 2 * call.pairs));
    auto const portions = is_packed ? call.pairs / pack : call.pairs;
    RopeGrid grid{0, 1, call.heads};
    while ((1 << grid.lane_shift) < std::min<std::int64_t>(portions, rope_threads)) ++grid.lane_shift;
    auto const tokens_at_once = static_cast<std::int64_t>(rope_threads >> grid.lane_shift);
    auto const token_blocks = std::min(many_blocks, (call.tokens - 1) / tokens_at_once + 1);
    auto const shares = std::clamp<std::int64_t>(many_blocks / token_blocks, 1, call.heads);
    grid.heads_of_block = (call.heads - 1) / shares + 1;
    grid.head_blocks = static_cast<std::uint32_t>((call.heads - 1) / grid.heads_of_block + 1);
    bool const has_turns = call.turns != nullptr;
    auto const kernel =
        has_turns
            ? (is_packed ? SHARDWISE_KERNEL(turn_pairs<T, pack, true>) : SHARDWISE_KERNEL(turn_pairs<T, 1, true>))
            : (is_packed ? SHARDWISE_KERNEL(turn_pairs<T, pack, false>) : SHARDWISE_KERNEL(turn_pairs<T, 1, false>));
    return DeviceLaunch<Api>::launch("rope", kernel, token_blocks * grid.head_blocks, rope_threads, stream, call, grid);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
