// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/load_floats.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/rope_call.hpp>
#include <shardwise/kernels/detail/turns.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int rope_threads = 128;

/// How a rope's blocks share its work: tokens among groups of blocks, a group's heads among its blocks.
struct RopeGrid {
    /// 2^lane_shift threads share a token.
    int lane_shift;
    std::uint32_t head_blocks;
    std::int64_t heads_of_block;
};

/// Turns pairs of elements (a[i], b[i]).
template <unsigned width>
__device__ void turn_values(float (&a)[width], float (&b)[width], Turn const (&turns)[width]) {
    SHARDWISE_DEVICE_UNROLL
    for (unsigned i = 0; i < width; ++i) {
        auto const first = a[i];
        a[i] = first * turns[i].cosine - b[i] * turns[i].sine;
        b[i] = b[i] * turns[i].cosine + first * turns[i].sine;
    }
}
/// Turns pairs of neighbours: those of `a`, then those of `b`.
template <unsigned width>
__device__ void turn_neighbours(float (&a)[width], float (&b)[width], Turn const (&turns)[width]) {
    if constexpr (width == 1) {
        turn_values(a, b, turns);
    } else {
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < width; ++i) {
            auto& values = i < width / 2 ? a : b;
            auto const at = i < width / 2 ? 2 * i : 2 * i - width;
            auto const first = values[at];
            values[at] = first * turns[i].cosine - values[at + 1] * turns[i].sine;
            values[at + 1] = values[at + 1] * turns[i].cosine + first * turns[i].sine;
        }
    }
}

/// Cosines and sines of `width` pairs of a token from `first` on.
template <class T, unsigned width, bool has_turns>
__device__ void take_turns(RopeCall<T> const& call, std::int64_t token, std::int64_t first, Turn (&turns)[width]) {
    if constexpr (has_turns) {
        auto const* const cosines = call.turns + token * call.turns_row + first;
        float a[width];
        float b[width];
        load_floats(cosines, a);
        load_floats(cosines + call.pairs, b);
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < width; ++i) turns[i] = {a[i], b[i]};
    } else {
        auto const position = call.positions[token];
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < width; ++i) {
            turns[i] = turn_of(position, call.frequencies[first + i]);
            turns[i].cosine *= call.scale;
            turns[i].sine *= call.scale;
        }
    }
}

/// A thread turns `width` pairs of a token in all heads of its block: their sines, where it computes them, are the expensive part.
template <class T, unsigned width, bool has_turns>
__global__ void __launch_bounds__(rope_threads, 4) turn_pairs(RopeCall<T> call, RopeGrid grid) {
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lanes = std::int64_t{1} << grid.lane_shift;
    auto const token_block = blockIdx.x / grid.head_blocks;
    auto const first_head = (blockIdx.x - token_block * grid.head_blocks) * grid.heads_of_block;
    auto const end_head = first_head + grid.heads_of_block < call.heads ? first_head + grid.heads_of_block : call.heads;
    auto const tokens_at_once = static_cast<std::int64_t>(rope_threads >> grid.lane_shift);
    auto const step = static_cast<std::int64_t>(gridDim.x / grid.head_blocks) * tokens_at_once;
    for (auto token = token_block * tokens_at_once + (thread >> grid.lane_shift); token < call.tokens; token += step) {
        for (auto first = (thread & (lanes - 1)) * width; first < call.pairs; first += lanes * width) {
            Turn turns[width];
            take_turns<T, width, has_turns>(call, token, first, turns);
            auto const at = call.is_interleaved ? 2 * first : first;
            auto const other = call.is_interleaved ? at + width : at + call.pairs;
            for (auto head = first_head; head < end_head; ++head) {
                auto* const values = call.values + token * call.row + head * call.head_dim + call.first;
                Portion<T, width> portions[2];
                float a[width];
                float b[width];
                portions[0].load(values + at);
                portions[1].load(values + other);
                portions[0].get(a);
                portions[1].get(b);
                if (call.is_interleaved) {
                    turn_neighbours(a, b, turns);
                } else {
                    turn_values(a, b, turns);
                }
                portions[0].set(a);
                portions[1].set(b);
                portions[0].store(values + at);
                portions[1].store(values + other);
            }
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
