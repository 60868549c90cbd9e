// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/kept_row.cuh>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/rms_norm_call.hpp>
#include <shardwise/kernels/detail/row_team.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Who shares a row of an RMS norm.
template <class Api, bool is_narrow>
struct NormTeam : WideTeam<Api> {};
template <class Api>
struct NormTeam<Api, true> : RowTeam<Api, true> {};

/// Threads of a block at most.
template <bool is_narrow>
inline constexpr int norm_threads = is_narrow ? row_threads : 1024;

/// Rows up to this width are a warp's.
constexpr std::int64_t narrow_row = 1024;

/// Sums of squares, and their means, that floats have.
struct SquareBounds {
    /// Squares below are not normal floats, or their sum lost some that are not; above the other lies infinity.
    static constexpr float small = 0x1p-100F;
    static constexpr float large = 0x1p127F;
};

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
template <class T, class Weight, unsigned width>
__device__ void scale_portion(Portion<T, width> portion, Portion<Weight, width> const& weight, float unit, float scale,
                              float offset, T* out) {
    float values[width];
    float factors[width];
    portion.get(values);
    weight.get(factors);
    SHARDWISE_DEVICE_UNROLL
    for (unsigned i = 0; i < width; ++i) values[i] = values[i] * unit * scale * (factors[i] + offset);
    portion.set(values);
    portion.store(out);
}

/// RMS norms of the rows that source.take(row, portions, kept) reads, or makes and stores, as far as they are kept; source.make(row,
/// first element, portion) makes what is not kept, if anything, and source.again reads it; source.weight(row) is the row's weights. Of a
/// row of n elements a sum has a chain of n / team + width + log2(warp) + warps additions.
template <class Team, class T, unsigned width, class Source, class Weight>
__device__ void norm_rows(Source const& source, RmsNormCall<T, Weight> const& call) {
    for_rows<Team>(call.rows, [&](std::int64_t row, bool is_row) {
        auto const again = [&](std::int64_t at, Portion<T, width>& portion) { source.again(row, at, portion); };
        auto const portions = is_row ? call.width / width : 0;
        KeptRow<Team, T, width> kept;
        source.take(row, portions, kept);
        // On their way while the row is summed: a store before them would hold their loads up, for all that a compiler knows.
        KeptRow<Team, Weight, width> weights;
        auto const load_weight = [&](std::int64_t at, Portion<Weight, width>& portion) {
            portion.load(source.weight(row) + at);
        };
        weights.load(portions, load_weight);
        // Those that are not kept are made, and stored, once.
        SHARDWISE_DEVICE_ROLL
        for (auto at = Team::lane() + std::int64_t{kept.kept} * Team::threads(); at < portions; at += Team::threads()) {
            Portion<T, width> more;
            source.make(row, at * width, more);
        }
        auto const squares_of = [&](float unit) {
            float squares = 0.0F;
            kept.visit(again, [&](std::int64_t, Portion<T, width> const& portion) {
                squares = add_squares(portion, unit, squares);
            });
            return Team::sum(squares);
        };
        auto const count = static_cast<float>(call.width);
        float unit = 1.0F;
        float mean = 0.0F;
        SHARDWISE_DEVICE_ROLL
        for (int attempt = 0; attempt < 2; ++attempt) {
            mean = squares_of(unit) / count + call.epsilon * unit * unit;
            // The same for all threads of the team. Powers of two: elements times them keep their digits.
            if (attempt == 1 || (mean >= SquareBounds::small && mean < SquareBounds::large)) break;
            unit = mean < SquareBounds::small ? 0x1p100F : 0x1p-100F;
        }
        auto const scale = 1.0F / sqrtf(mean);
        // Each thread writes what it alone has read, so that `out` may be `in`.
        auto* const out = call.out + row * call.out_row;
        kept.visit_with(weights, again, load_weight,
                        [&](std::int64_t at, Portion<T, width> const& portion, Portion<Weight, width> const& weight) {
                            scale_portion(portion, weight, unit, scale, call.offset, out + at);
                        });
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
