// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/encode_span.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/quantize_call.hpp>
#include <shardwise/kernels/detail/row_team.cuh>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Threads that share spans of a format: each takes four elements, and those of a warp or of a whole block many times.
template <WeightFormat format, bool is_wide>
[[nodiscard]] SHARDWISE_DEVICE constexpr int span_threads() {
    return is_wide ? row_threads : format == WeightFormat::nf4 ? 16 : 8;
}

template <class Api>
[[nodiscard]] __device__ std::uint32_t bits_of_other(std::uint32_t bits, int mask) {
    return bits_of_float(DeviceCode<Api>::shuffle_xor(float_of_bits(bits), mask));
}

/// What the threads of a team have seen, in all of them. Every thread of the block calls it.
template <class Api, int threads, class Seen>
__device__ Seen all_seen(Seen seen) {
    constexpr int warp = DeviceCode<Api>::warp_size;
    SHARDWISE_DEVICE_UNROLL
    for (int mask = 1; mask < (threads < warp ? threads : warp); mask *= 2) {
        seen.merge(seen.moved([&](float word) { return DeviceCode<Api>::shuffle_xor(word, mask); }));
    }
    if constexpr (threads > warp) {
        static_assert(threads == row_threads);
        __shared__ float words[3][static_cast<unsigned>(row_threads / warp)];
        auto const thread = static_cast<int>(threadIdx.x);
        // The reads of the call before are over.
        __syncthreads();
        int word = 0;
        if (thread % warp == 0) {
            (void)seen.moved([&](float value) {
                words[word++][thread / warp] = value;
                return value;
            });
        }
        __syncthreads();
        SHARDWISE_DEVICE_UNROLL
        for (int other = 0; other < row_threads / warp; ++other) {
            int at = 0;
            seen.merge(seen.moved([&](float) { return words[at++][other]; }));
        }
    }
    return seen;
}

/// Four elements of a row from `at` on; zeros where the row has ended.
template <bool is_packed>
__device__ void load_four(QuantizeCall const& call, std::int64_t row, std::int64_t at, float (&values)[4]) {
    auto const* const from = call.in + row * call.in_row + at;
    if constexpr (is_packed) {
        widen_pack(at < call.width ? load_pack(from) : Pack16{}, values);
    } else {
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 4; ++i) values[i] = at + i < call.width ? from[i] : 0.0F;
    }
}

/// Stores the codes of the four elements from `at` on. Every thread of the warp calls it; `is_there` is the same of neighbours.
template <class Api, WeightFormat format>
__device__ void store_codes(QuantizeCall const& call, std::int64_t row, std::int64_t at, bool is_there,
                            std::uint32_t const (&codes)[4]) {
    constexpr int bits = SpanEncoder<format>::bits;
    auto* const quants = call.quants + row * call.row_bytes;
    if constexpr (bits == 32) {
        if (is_there) store_pack(quants + 4 * at, Pack16{{codes[0], codes[1], codes[2], codes[3]}});
    } else if constexpr (bits == 16) {
        if (is_there) store_pack(quants + 2 * at, HalfPack{{codes[0] | codes[1] << 16U, codes[2] | codes[3] << 16U}});
    } else {
        auto const bytes = codes[0] | codes[1] << 8U | codes[2] << 16U | codes[3] << 24U;
        if constexpr (bits == 8) {
            if (is_there) *reinterpret_cast<std::uint32_t*>(quants + at) = bytes;
        } else {
            // A word has eight elements, the first four in its low halves: backend/detail/pack_device_row.hpp.
            auto const low = bytes & 0x0F0F0F0FU;
            auto const word = low | bits_of_other<Api>(low, 1) << 4U;
            if (is_there && at % 8 == 0) *reinterpret_cast<std::uint32_t*>(quants + at / 2) = word;
            if constexpr (bits == 5) {
                auto plane = (bytes >> 4U & 0x01010101U) << static_cast<unsigned>(at / 4 % 8);
                SHARDWISE_DEVICE_UNROLL
                for (int mask = 1; mask < 8; mask *= 2) plane |= bits_of_other<Api>(plane, mask);
                if (is_there && at % 32 == 0) {
                    reinterpret_cast<std::uint32_t*>(call.planes)[row * call.block_row + at / 32] = plane;
                }
            }
        }
    }
}

/// A team encodes a span at a time: it reads it once for the scale and once more for the codes where it is longer than a thread's four
/// elements. All threads of a block do so equally often, because they shuffle.
template <class Api, WeightFormat format, bool is_wide, bool is_packed>
__global__ void __launch_bounds__(row_threads, 2) quantize_spans(QuantizeCall call) {
    using Encoder = SpanEncoder<format>;
    constexpr int threads = span_threads<format, is_wide>();
    constexpr bool has_scale = Encoder::bits <= 8;
    constexpr bool is_once = format != WeightFormat::int8 && format != WeightFormat::int4;
    // Elements of a row's memory.
    auto const padded = call.row_bytes * 8 / (Encoder::bits == 5 ? 4 : Encoder::bits);
    auto const turns = is_once ? 1 : (call.span + 4 * threads - 1) / (4 * threads);
    auto const lane = static_cast<int>(threadIdx.x) % threads;
    auto const team = static_cast<int>(threadIdx.x) / threads;
    auto const row_block = blockIdx.x / call.column_blocks;
    auto const column_block = blockIdx.x - row_block * call.column_blocks;
    auto const teams = std::int64_t{1} << call.team_shift;
    auto const rows_at_once = static_cast<std::int64_t>((row_threads / threads) >> call.team_shift);
    auto const row_step = static_cast<std::int64_t>(gridDim.x / call.column_blocks) * rows_at_once;
    for (auto row_first = row_block * rows_at_once; row_first < call.rows; row_first += row_step) {
        auto const row = row_first + (team >> call.team_shift);
        for (auto span_first = column_block * teams; span_first < call.spans;
             span_first += call.column_blocks * teams) {
            auto const span = span_first + (team & (teams - 1));
            bool const is_there = row < call.rows && span < call.spans;
            auto const begin = span * call.span;
            auto const whole = is_there ? begin + call.span : begin;
            auto const end = whole < call.width ? whole : call.width;
            // The last span has the row's padding.
            auto const stored_end = !is_there ? begin : span + 1 == call.spans ? padded : whole;
            float values[4] = {};
            typename Encoder::Seen seen;
            for (std::int64_t turn = 0; turn < turns; ++turn) {
                auto const place = turn * threads + lane;
                auto const at = begin + 4 * place;
                if (at >= end) continue;
                load_four<is_packed>(call, row, at, values);
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < 4; ++i) {
                    if (at + i < end) seen.see(values[i], static_cast<std::uint32_t>(place), i);
                }
            }
            auto const encode = [&](auto const& encoder) {
                for (std::int64_t turn = 0; turn < turns; ++turn) {
                    auto const at = begin + 4 * (turn * threads + lane);
                    if (!is_once && at < end) load_four<is_packed>(call, row, at, values);
                    std::uint32_t codes[4];
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < 4; ++i) codes[i] = at + i < end ? encoder.code(values[i]) : 0U;
                    store_codes<Api, format>(call, row, at, at < stored_end, codes);
                }
            };
            if constexpr (has_scale) {
                Encoder const encoder(all_seen<Api, threads>(seen));
                if (is_there && lane == 0) {
                    reinterpret_cast<decltype(encoder.scale)*>(call.scales)[row * call.scale_row + span] =
                        encoder.scale;
                }
                encode(encoder);
            } else {
                encode(Encoder{});
            }
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
