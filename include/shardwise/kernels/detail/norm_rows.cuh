// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/rms_norm_call.hpp>
#include <shardwise/kernels/detail/row_team.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows up to this width are a warp's.
constexpr std::int64_t narrow_row = 1024;

/// Portions of a row that a thread keeps in registers: rows of up to 16 Ki elements of 16 bits are read once.
template <unsigned width>
inline constexpr unsigned kept_portions = width == 1 ? 1 : 8;

/// The sum of the squares of a portion's elements times `unit`, added to `squares`.
template <class T, unsigned width>
__device__ float add_squares(Portion<T, width> const& portion, float unit, float squares) {
    float values[width];
    portion.get(values);
    SHARDWISE_DEVICE_UNROLL
    for (unsigned i = 0; i < width; ++i) {
        auto const value = values[i] * unit;
        squares += value * value;
    }
    return squares;
}

/// One portion of out = in * unit * scale * (weight + offset).
template <class T, unsigned width>
__device__ void scale_portion(Portion<T, width> portion, RmsNormCall<T> const& call, float unit, float scale,
                              std::int64_t row, std::int64_t at) {
    Portion<T, width> weight;
    weight.load(call.weight + at);
    float values[width];
    float factors[width];
    portion.get(values);
    weight.get(factors);
    SHARDWISE_DEVICE_UNROLL
    for (unsigned i = 0; i < width; ++i) values[i] = values[i] * unit * scale * (factors[i] + call.offset);
    portion.set(values);
    portion.store(call.out + row * call.out_row + at);
}

/// RMS norms of the rows that source.take(row, first element, portion) reads, or makes and stores, and source.again reads once
/// more. Of a row of n elements a sum has a chain of n / team + width + log2(warp) + warps additions.
template <class Team, class T, unsigned width, class Source>
__device__ void norm_rows(Source const& source, RmsNormCall<T> const& call) {
    // Squares below the first are not normal floats, or their sum lost some that are not; above the second lies infinity.
    constexpr float small = 0x1p-100F;
    constexpr float large = 0x1p127F;
    constexpr unsigned kept = kept_portions<width>;
    auto const lane = static_cast<std::int64_t>(Team::lane());
    for_rows<Team>(call.rows, [&](std::int64_t row, bool is_row) {
        auto const portions = is_row ? call.width / width : 0;
        Portion<T, width> own[kept];
        Portion<T, width> more;
        float squares = 0.0F;
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < kept; ++i) {
            auto const at = lane + i * Team::size;
            if (at < portions) {
                source.take(row, at * width, own[i]);
                squares = add_squares(own[i], 1.0F, squares);
            }
        }
        for (auto at = lane + kept * Team::size; at < portions; at += Team::size) {
            source.take(row, at * width, more);
            squares = add_squares(more, 1.0F, squares);
        }
        auto const count = static_cast<float>(call.width);
        float unit = 1.0F;
        auto mean = Team::sum(squares) / count + call.epsilon;
        // The same for all threads of the team. Powers of two: elements times them keep their digits.
        if (!(mean >= small && mean < large)) {
            unit = mean < small ? 0x1p100F : 0x1p-100F;
            squares = 0.0F;
            SHARDWISE_DEVICE_UNROLL
            for (unsigned i = 0; i < kept; ++i) {
                if (lane + i * Team::size < portions) squares = add_squares(own[i], unit, squares);
            }
            for (auto at = lane + kept * Team::size; at < portions; at += Team::size) {
                source.again(row, at * width, more);
                squares = add_squares(more, unit, squares);
            }
            mean = Team::sum(squares) / count + call.epsilon * unit * unit;
        }
        auto const scale = 1.0F / sqrtf(mean);
        // Each thread writes what it alone has read, so that `out` may be `in`.
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < kept; ++i) {
            auto const at = lane + i * Team::size;
            if (at < portions) scale_portion(own[i], call, unit, scale, row, at * width);
        }
        for (auto at = lane + kept * Team::size; at < portions; at += Team::size) {
            source.again(row, at * width, more);
            scale_portion(more, call, unit, scale, row, at * width);
        }
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
