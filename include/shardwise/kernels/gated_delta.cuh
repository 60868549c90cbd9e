// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/device_math.hpp>
#include <shardwise/kernels/detail/gated_delta_call.hpp>
#include <shardwise/kernels/detail/row_team.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Columns of a matrix that a block has: a thread of each group for each.
constexpr int delta_columns = row_threads / delta_groups;

__device__ inline float device_silu(float x) {
    return x / (1.0F + device_exp(-x));
}

/// A block takes a key head of a token through its convolution, divides its query and key by their lengths, and makes the two numbers
/// of each of its value heads.
template <class Api, class T>
__global__ void __launch_bounds__(row_threads, 2) delta_mix(GatedDeltaCall<T> call) {
    auto const thread = static_cast<int>(threadIdx.x);
    auto const dim = call.key_dim;
    auto const values = call.values_per_key * call.value_dim;
    auto const channels = 2 * dim + values;
    auto const past = call.kernel - 1;
    for (auto index = static_cast<std::int64_t>(blockIdx.x); index < call.tokens * call.heads; index += gridDim.x) {
        auto const token = index / call.heads;
        auto const head = static_cast<int>(index - token * call.heads);
        auto const* const in = call.in + head * (channels + values);
        auto* const mixed = call.mixed + (token * call.heads + head) * channels;
        float query = 0.0F;
        float key = 0.0F;
        for (int channel = thread; channel < channels; channel += row_threads) {
            // The head's channels lie apart in the convolution's weights: all q, all k, all v.
            auto at = head * dim + channel;
            if (channel >= dim) at = call.heads * dim + head * dim + channel - dim;
            if (channel >= 2 * dim) at = 2 * call.heads * dim + head * values + channel - 2 * dim;
            auto const* const weight = call.convolution + static_cast<std::int64_t>(at) * call.kernel;
            auto const* const seen = call.state + (static_cast<std::int64_t>(head) * channels + channel) * past;
            auto sum = weight[past] * widen(in[token * call.in_row + channel]);
            for (int i = 0; i < past; ++i) {
                auto const before = token - past + i;
                auto const value = before >= 0     ? widen(in[before * call.in_row + channel])
                                   : call.is_first ? 0.0F
                                                   : seen[before + past];
                sum += weight[i] * value;
            }
            auto const value = device_silu(sum);
            if (channel < dim) {
                query += value * value;
            } else if (channel < 2 * dim) {
                key += value * value;
            }
            mixed[channel] = value;
        }
        auto const of_query = 1.0F / sqrtf(static_cast<float>(dim)) / sqrtf(block_sum<Api, row_threads>(query) + 1e-6F);
        auto const of_key = 1.0F / sqrtf(block_sum<Api, row_threads>(key) + 1e-6F);
        // Each thread's own.
        for (int channel = thread; channel < 2 * dim; channel += row_threads)
            mixed[channel] *= channel < dim ? of_query : of_key;
        for (int i = thread; i < call.values_per_key; i += row_threads) {
            auto const* const ba = call.ba + token * call.ba_row + head * 2 * call.values_per_key;
            auto const value_head = head * call.values_per_key + i;
            auto* const gates = call.gates + 2 * (token * call.heads * call.values_per_key + value_head);
            auto const decay =
                call.decay[value_head] * device_softplus(widen(ba[call.values_per_key + i]) + call.dt_bias[value_head]);
            gates[0] = device_exp(decay);
            gates[1] = 1.0F / (1.0F + device_exp(-widen(ba[i])));
        }
    }
}

/// A block takes some columns of a value head's matrix through all tokens. A column's rows are shared by the threads of all groups,
/// each of which keeps its own: sums have a chain of delta_kept + delta_groups additions. The last inputs of the convolution are
/// kept for the tokens to come.
template <class Api, class T>
__global__ void __launch_bounds__(row_threads, 2) delta_rule(GatedDeltaCall<T> call) {
    __shared__ float vectors[2 * delta_kept * delta_groups];
    __shared__ float reads[row_threads];
    __shared__ float results[row_threads];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % delta_columns;
    auto const group = thread / delta_columns;
    auto const dim = call.key_dim;
    auto const values = call.values_per_key * call.value_dim;
    auto const channels = 2 * dim + values;
    auto const past = call.kernel - 1;
    auto const slices = (call.value_dim - 1) / delta_columns + 1;
    auto const value_heads = call.heads * call.values_per_key;
    auto const sum_of = [lane](float const* parts) {
        float sum = 0.0F;
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < delta_groups; ++i) sum += parts[i * delta_columns + lane];
        return sum;
    };
    constexpr int widest = delta_kept * delta_groups;
    auto* const query = vectors;
    auto* const key = vectors + widest;
    // Rows beyond the last are zeros, and so is what they are multiplied with.
    for (int i = thread; i < 2 * widest; i += row_threads) vectors[i] = 0.0F;
    for (auto index = static_cast<int>(blockIdx.x); index < value_heads * slices;
         index += static_cast<int>(gridDim.x)) {
        auto const value_head = index / slices;
        auto const slice = index - value_head * slices;
        auto const head = value_head / call.values_per_key;
        auto const column = slice * delta_columns + lane;
        bool const is_column = column < call.value_dim;
        auto* const matrix = call.state + static_cast<std::int64_t>(call.heads) * channels * past +
                             static_cast<std::int64_t>(value_head) * dim * call.value_dim + column;
        float own[delta_kept];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < delta_kept; ++i) {
            auto const row = group + i * delta_groups;
            bool const is_kept = is_column && row < dim && !call.is_first;
            own[i] = is_kept ? matrix[static_cast<std::int64_t>(row) * call.value_dim] : 0.0F;
        }
        for (std::int64_t token = 0; token < call.tokens; ++token) {
            auto const* const mixed = call.mixed + (token * call.heads + head) * channels;
            // What the token before shares has been read.
            __syncthreads();
            for (int i = thread; i < dim; i += row_threads) {
                query[i] = mixed[i];
                key[i] = mixed[dim + i];
            }
            __syncthreads();
            auto const* const gates = call.gates + 2 * (token * value_heads + value_head);
            auto const kept = gates[0];
            float part = 0.0F;
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < delta_kept; ++i) {
                auto const row = group + i * delta_groups;
                own[i] *= kept;
                part += own[i] * key[row];
            }
            reads[thread] = part;
            __syncthreads();
            auto const value =
                is_column ? mixed[2 * dim + (value_head - head * call.values_per_key) * call.value_dim + column] : 0.0F;
            auto const correction = (value - sum_of(reads)) * gates[1];
            part = 0.0F;
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < delta_kept; ++i) {
                auto const row = group + i * delta_groups;
                own[i] += key[row] * correction;
                part += own[i] * query[row];
            }
            results[thread] = part;
            __syncthreads();
            if (group == 0 && is_column) {
                if constexpr (sizeof(T) == 4) {
                    call.out[token * call.out_row + value_head * call.value_dim + column] = sum_of(results);
                } else {
                    // Halves are made of floats, which lie where all groups have read the value.
                    call.mixed[(token * call.heads + head) * channels + 2 * dim +
                               (value_head - head * call.values_per_key) * call.value_dim + column] = sum_of(results);
                }
            }
        }
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < delta_kept; ++i) {
            auto const row = group + i * delta_groups;
            if (is_column && row < dim) matrix[static_cast<std::int64_t>(row) * call.value_dim] = own[i];
        }
        if (slice > 0 || value_head % call.values_per_key != 0) continue;
        for (int channel = thread; channel < channels; channel += row_threads) {
            auto* const seen = call.state + (static_cast<std::int64_t>(head) * channels + channel) * past;
            for (int i = 0; i < past; ++i) {
                auto const token = call.tokens - past + i;
                if (token >= 0) {
                    seen[i] = widen(call.in[token * call.in_row + head * (channels + values) + channel]);
                } else {
                    seen[i] = call.is_first ? 0.0F : seen[token + past];
                }
            }
        }
    }
}

/// A team normalises a value head of a token and gates it by silu(z).
template <class Api, class T>
__global__ void __launch_bounds__(row_threads, 2) delta_gate(GatedDeltaCall<T> call) {
    using Team = RowTeam<Api, DeviceCode<Api>::has_own_warps>;
    auto const values = call.values_per_key * call.value_dim;
    auto const channels = 2 * call.key_dim + values;
    auto const value_heads = static_cast<std::int64_t>(call.heads) * call.values_per_key;
    for_rows<Team>(call.tokens * value_heads, [&](std::int64_t index, bool is_row) {
        auto const token = index / value_heads;
        auto const value_head = index - token * value_heads;
        auto const head = value_head / call.values_per_key;
        auto const width = is_row ? call.value_dim : 0;
        auto* const out = call.out + token * call.out_row + value_head * call.value_dim;
        float const* from = call.mixed + (token * call.heads + head) * channels + 2 * call.key_dim +
                            (value_head - head * call.values_per_key) * call.value_dim;
        if constexpr (sizeof(T) == 4) from = out;
        auto const* const gate = call.in + token * call.in_row + head * (channels + values) + channels +
                                 (value_head - head * call.values_per_key) * call.value_dim;
        float squares = 0.0F;
        for (int i = Team::lane(); i < width; i += Team::size) squares += from[i] * from[i];
        auto const factor = 1.0F / sqrtf(Team::sum(squares) / static_cast<float>(call.value_dim) + call.epsilon);
        for (int i = Team::lane(); i < width; i += Team::size)
            narrow(from[i] * (factor * call.norm[i] * device_silu(widen(gate[i]))), out[i]);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
