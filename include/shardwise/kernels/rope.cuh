// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/kernels/detail/rope_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int rope_threads = 128;

/// A thread turns one pair of one token in all heads: the sines are the expensive part.
template <class T>
__global__ void __launch_bounds__(rope_threads) turn_pairs(RopeCall<T> call) {
    auto const threads = static_cast<std::int64_t>(gridDim.x) * rope_threads;
    for (auto index = static_cast<std::int64_t>(blockIdx.x) * rope_threads + threadIdx.x;
         index < call.tokens * call.pairs; index += threads) {
        auto const token = index / call.pairs;
        auto const pair = index % call.pairs;
        // In double: a float angle of a million radians has no digit behind the point left.
        auto const angle = static_cast<double>(call.positions[token]) * static_cast<double>(call.frequencies[pair]);
        auto const cosine = static_cast<float>(cos(angle)) * call.scale;
        auto const sine = static_cast<float>(sin(angle)) * call.scale;
        auto const first = call.is_interleaved ? 2 * pair : pair;
        auto const second = call.is_interleaved ? 2 * pair + 1 : pair + call.pairs;
        for (std::int64_t head = 0; head < call.heads; ++head) {
            auto* const values = call.values + token * call.row + head * call.head_dim;
            auto const a = widen(values[first]);
            auto const b = widen(values[second]);
            narrow(a * cosine - b * sine, values[first]);
            narrow(b * cosine + a * sine, values[second]);
        }
    }
}

template <class Api, class T>
Result<> launch_rope(RopeCall<T> const& call, typename Api::Stream stream) {
    constexpr std::int64_t most_blocks = 1 << 16;
    auto const blocks = (call.tokens * call.pairs + rope_threads - 1) / rope_threads;
    return DeviceCode<Api>::launch("rope", &turn_pairs<T>, blocks < most_blocks ? blocks : most_blocks, rope_threads,
                                   stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
