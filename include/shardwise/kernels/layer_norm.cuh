// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/kept_row.cuh>
#include <shardwise/kernels/detail/layer_norm_call.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/row_team.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// One portion of (in - mean - shift) * scale * weight + bias, of inputs times `unit`.
template <class T, class Weight, unsigned width>
__device__ void centre_portion(Portion<T, width> portion, LayerNormCall<T, Weight> const& call, float unit, float mean,
                               float shift, float scale, Weight const* weights, std::int64_t row, std::int64_t at) {
    Portion<Weight, width> weight;
    float values[width];
    float factors[width];
    float biases[width] = {};
    portion.get(values);
    weight.load(weights + at);
    weight.get(factors);
    if (call.bias != nullptr) {
        weight.load(call.bias + at);
        weight.get(biases);
    }
    SHARDWISE_DEVICE_UNROLL
    for (unsigned i = 0; i < width; ++i) {
        values[i] = ((values[i] * unit - mean) - shift) * scale * factors[i] + biases[i];
    }
    portion.set(values);
    portion.store(call.out + row * call.out_row + at);
}

/// A mean in float is off by as many roundings of the row's size as its sum is long; what the deviations from it sum to says by
/// how much, so that a row far from 0 loses no digits of its deviations. Sums have chains of n / team + width + log2(warp) + warps
/// additions.
template <class Team, class T, class Weight, unsigned width, bool is_of_heads>
__device__ void centre(LayerNormCall<T, Weight> const& call) {
    // As of an RMS norm (norm_rows.cuh): outside of these a row is scaled by a power of two first.
    constexpr float small = 0x1p-100F;
    constexpr float large = 0x1p127F;
    for_rows<Team>(call.rows, [&](std::int64_t row, bool is_row) {
        auto const read = [&](std::int64_t at, Portion<T, width>& portion) {
            portion.load(call.in + row * call.in_row + at);
        };
        KeptRow<Team, T, width> kept;
        kept.load(is_row ? call.width / width : 0, read);
        auto const count = static_cast<float>(call.width);
        float unit = 1.0F;
        float mean = 0.0F;
        float shift = 0.0F;
        float variance = 0.0F;
        for (int attempt = 0; attempt < 2; ++attempt) {
            float sum = 0.0F;
            kept.visit(read, [&](std::int64_t, Portion<T, width> const& portion) {
                float values[width];
                portion.get(values);
                SHARDWISE_DEVICE_UNROLL
                for (unsigned i = 0; i < width; ++i) sum += values[i] * unit;
            });
            mean = Team::sum(sum) / count;
            float deviations = 0.0F;
            float squares = 0.0F;
            kept.visit(read, [&](std::int64_t, Portion<T, width> const& portion) {
                float values[width];
                portion.get(values);
                SHARDWISE_DEVICE_UNROLL
                for (unsigned i = 0; i < width; ++i) {
                    auto const deviation = values[i] * unit - mean;
                    deviations += deviation;
                    squares += deviation * deviation;
                }
            });
            shift = Team::sum(deviations) / count;
            auto const spread = Team::sum(squares) / count - shift * shift;
            // Rounding may leave less than nothing; a NaN is kept.
            variance = (spread < 0.0F ? 0.0F : spread) + call.epsilon * unit * unit;
            // The same for all threads of the team.
            if (attempt == 1 || (variance >= small && variance < large)) break;
            unit = variance < small ? 0x1p100F : 0x1p-100F;
        }
        auto const scale = 1.0F / sqrtf(variance);
        // Each thread writes what it alone has read, so that `out` may be `in`.
        auto const* weights = call.weight;
        if constexpr (is_of_heads) weights = head_weight(call, row);
        kept.visit(read, [&](std::int64_t at, Portion<T, width> const& portion) {
            centre_portion(portion, call, unit, mean, shift, scale, weights, row, at);
        });
    });
}

template <class Api, class T, class Weight, unsigned width, bool is_narrow>
__global__ void __launch_bounds__(row_threads, 2) centre_rows(LayerNormCall<T, Weight> call) {
    centre<RowTeam<Api, is_narrow>, T, Weight, width, false>(call);
}

/// Rows of heads, which are narrow.
template <class Api, class T, class Weight, unsigned width, bool is_narrow>
__global__ void __launch_bounds__(row_threads, 2) centre_heads(LayerNormCall<T, Weight> call) {
    centre<RowTeam<Api, is_narrow>, T, Weight, width, true>(call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
