// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/load_floats.hpp>
#include <shardwise/kernels/detail/nearest_byte.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>
#include <shardwise/kernels/detail/row_team.cuh>
#include <shardwise/kernels/detail/store_step_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class T, class Cache, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) store_portions(StoreStepCall<T, Cache> call, PortionGrid grid) {
    for_portions<width>(grid, call.rows, call.width, [&](std::int64_t token, std::int64_t at) {
        auto const place = place_of(call.places, token);
        if (place < 0) return;
        float values[width];
        load_floats(call.in + token * call.in_row + at, values);
        Portion<Cache, width> portion;
        portion.set(values);
        portion.store(call.memory + place * call.memory_row + at);
    });
}

/// A team stores a head of a token as bytes: its greatest magnitude first. `width` elements at once, 1 or 4.
template <class Api, class T, unsigned width, bool is_narrow>
__global__ void __launch_bounds__(row_threads, 2) store_bytes(StoreStepCall<T, std::int8_t> call) {
    using Team = RowTeam<Api, is_narrow>;
    auto const heads = static_cast<std::uint32_t>(call.heads);
    for_rows<Team>(call.rows * call.heads, [&](std::int64_t index, bool is_row) {
        auto const token = static_cast<std::uint32_t>(index) / heads;
        auto const head = static_cast<std::uint32_t>(index) - token * heads;
        auto const place = is_row ? place_of(call.places, token) : std::int64_t{-1};
        auto const portions = place < 0 ? 0 : call.head_width / width;
        auto const* const from = call.in + token * call.in_row + head * call.head_width;
        float values[width];
        float magnitude = 0.0F;
        for (std::int64_t at = Team::lane(); at < portions; at += Team::size) {
            load_floats(from + at * width, values);
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i)
                magnitude = greater_of(magnitude, float_of_bits(bits_of_float(values[i]) & 0x7FFFFFFFU));
        }
        magnitude = Team::greatest(magnitude);
        if (place < 0) return;
        // 127 over a magnitude below 2^-121 is no float: both are multiplied by a power of two, which rounds nothing.
        auto const lift = magnitude < 0x1p-100F ? 0x1p100F : 1.0F;
        auto const inverse = magnitude == 0.0F ? 0.0F : 127.0F / (magnitude * lift);
        auto* const to = call.memory + place * call.memory_row + head * call.head_width;
        for (std::int64_t at = Team::lane(); at < portions; at += Team::size) {
            load_floats(from + at * width, values);
            std::uint32_t word = 0;
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < width; ++i) {
                auto const byte = static_cast<std::uint8_t>(nearest_byte(values[i] * lift * inverse));
                word |= static_cast<std::uint32_t>(byte) << (8 * i);
            }
            if constexpr (width == 1) {
                to[at] = static_cast<std::int8_t>(static_cast<std::uint8_t>(word));
            } else {
                *reinterpret_cast<std::uint32_t*>(to + at * width) = word;
            }
        }
        if (Team::lane() == 0) call.scales[place * call.scale_row + head] = magnitude / 127.0F;
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
