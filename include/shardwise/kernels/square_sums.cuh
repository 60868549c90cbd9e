// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/norm_rows.cuh>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/portions.cuh>
#include <shardwise/kernels/detail/row_team.cuh>
#include <shardwise/kernels/detail/square_sums_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The sum of the squares of a team's columns times `unit`: a thread has the same columns of a piece, in the same order, whatever their
/// address is.
template <class Team, class T>
__device__ float sum_piece(T const* in, std::int64_t columns, bool is_packed, float unit) {
    constexpr unsigned pack = pack_elements<T>;
    auto squares = 0.0F;
    SHARDWISE_DEVICE_ROLL
    for (auto at = std::int64_t{Team::lane()} * pack; at < columns; at += std::int64_t{Team::threads()} * pack) {
        float values[pack];
        if (is_packed) {
            Portion<T, pack> portion;
            portion.load(in + at);
            portion.get(values);
        } else {
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < pack; ++i) values[i] = at + i < columns ? widen(in[at + i]) : 0.0F;
        }
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < pack; ++i) {
            auto const value = values[i] * unit;
            squares += value * value;
        }
    }
    return Team::sum(squares);
}

/// A team adds up a piece of a row. Its bits are those of the piece alone, whoever has it.
template <class Api, class T, bool is_narrow>
__global__ void __launch_bounds__(row_threads, 2) sum_squares_of_pieces(SquareSumsCall<T> call) {
    using Team = RowTeam<Api, is_narrow>;
    for_rows<Team>(call.rows * call.numbers, [&](std::int64_t index, bool is_piece) {
        auto const row = index / call.numbers;
        auto const piece = index - row * call.numbers;
        auto begin = call.grains * piece / call.numbers * call.grain;
        auto end = call.grains * (piece + 1) / call.numbers * call.grain;
        if (begin < call.begin) begin = call.begin;
        if (end > call.end) end = call.end;
        auto const columns = is_piece && begin < end ? end - begin : 0;
        auto const* const in = call.in + (columns > 0 ? row * call.in_row + begin - call.first : 0);
        // The same for all threads of the team. Powers of two: elements times them keep their digits.
        auto const plain = sum_piece<Team>(in, columns, call.is_packed, 1.0F);
        auto up = plain * 0x1p100F * 0x1p100F;
        auto down = plain * 0x1p-100F * 0x1p-100F;
        if (plain < SquareBounds::small) {
            up = sum_piece<Team>(in, columns, call.is_packed, 0x1p100F);
        } else if (!(plain < SquareBounds::large)) {
            down = sum_piece<Team>(in, columns, call.is_packed, 0x1p-100F);
        }
        if (!is_piece || Team::lane() != 0) return;
        auto* const to = call.sums + index * square_floats;
        to[0] = plain;
        to[1] = up;
        to[2] = down;
    });
}

/// A row's sums of one kind, in order.
__device__ inline float add_pieces(float const* sums, std::int64_t numbers, int kind) {
    auto total = 0.0F;
    SHARDWISE_DEVICE_ROLL
    for (std::int64_t i = 0; i < numbers; ++i) total += sums[i * square_floats + kind];
    return total;
}

template <class T, unsigned width>
__global__ void __launch_bounds__(row_threads, 2) scale_by_square_sums(ScaleBySquaresCall<T> call, PortionGrid grid) {
    for_portions<width>(grid, call.rows, call.width, [&](std::int64_t row, std::int64_t at) {
        auto const* const sums = call.sums + row * call.numbers * square_floats;
        auto unit = 1.0F;
        auto mean = add_pieces(sums, call.numbers, 0) / call.whole + call.epsilon;
        if (!(mean >= SquareBounds::small && mean < SquareBounds::large)) {
            bool const is_small = mean < SquareBounds::small;
            unit = is_small ? 0x1p100F : 0x1p-100F;
            mean = add_pieces(sums, call.numbers, is_small ? 1 : 2) / call.whole + call.epsilon * unit * unit;
        }
        Portion<T, width> portion;
        Portion<float, width> weight;
        portion.load(call.in + row * call.in_row + at);
        weight.load(call.weight + at);
        scale_portion(portion, weight, unit, 1.0F / sqrtf(mean), call.offset, call.out + row * call.out_row + at);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
