// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/attention_sums.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows (a query and a head each) of a tile for heads of up to `width` elements.
template <int width>
inline constexpr int tile_rows = width > 128 ? 16 : 32;

/// Tiles of all sequences of several tokens at most: those of a sequence are numbered on from first_tile.
[[nodiscard]] SHARDWISE_DEVICE inline std::int32_t first_tile(StepAttentionPlan const& call, std::int32_t sequence,
                                                              std::int32_t first_token, int rows) {
    return first_token * call.group / rows + sequence;
}

/// What the threads of a block know together.
template <int queries_size, int loaded_size, int weights_size>
struct alignas(16) TilesMemory {
    float queries[array_size<queries_size>];
    float loaded[array_size<loaded_size>];
    float weights[array_size<weights_size>];
};

/// Where keys or values of a tile lie while they are worked on, and how a block brings them there.
template <class Cache, int width, int keys, int pitch>
__device__ void load_tile(StepRowsCall<Cache> const& from, KeyPlaces const& places, std::int32_t first_key,
                          std::int32_t begin, std::int32_t end, std::int64_t head_at, std::int32_t dim, int column,
                          bool is_packed, float* to) {
    constexpr int eights = width / 8;
    for (int i = static_cast<int>(threadIdx.x); i < keys * eights; i += attention_threads) {
        auto const row = i / eights;
        auto const at = column + (i - row * eights) * 8;
        auto const key = first_key + row;
        float values[8];
        SHARDWISE_DEVICE_UNROLL
        for (int k = 0; k < 8; ++k) values[k] = 0.0F;
        if (key >= begin && key < end && at < dim) {
            auto const* const data = from.data + places.of(key) * from.row + head_at + at;
            if (is_packed) {
                Eight<Cache> loaded;
                loaded.load(data);
                loaded.get(values);
            } else {
                SHARDWISE_DEVICE_UNROLL
                for (int k = 0; k < 8; ++k) {
                    if (at + k < dim) values[k] = element_value(data[k]);
                }
            }
        }
        store_floats(to + row * pitch + at - column, values);
    }
}

/// Attends for sequences of several tokens: a block for some queries and heads that share keys, over all that they see, 64 keys at
/// a time. Scores are never kept beyond those.
template <class Api, class Staged, class Cache, int width>
__global__ void __launch_bounds__(attention_threads, (least_blocks < Api, width == 128 ? 2 : 3 >))
    attend_tiles(StepAttentionCall<Cache> call, bool has_packed_keys, bool has_packed_values) {
    constexpr int rows = tile_rows<width>;
    constexpr int keys = 64;
    // Of a key that is multiplied at once, and values of so many keys.
    constexpr int columns = 32;
    constexpr int value_keys = 16;
    constexpr int lanes = 16;
    constexpr int thread_rows = rows * lanes / attention_threads;
    constexpr int thread_keys = keys / lanes;
    constexpr int fours = width / (4 * lanes);
    // Rows of keys lie so that neighbouring lanes read from other banks.
    constexpr int key_pitch = columns + 4;
    constexpr int weight_pitch = keys + 4;
    constexpr int loaded_floats = keys * key_pitch > value_keys * width ? keys * key_pitch : value_keys * width;
    auto& memory = block_memory<TilesMemory<rows * width, loaded_floats, rows * weight_pitch>>();
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % lanes;
    auto const first_row = thread / lanes * thread_rows;
    auto const tiles =
        first_tile(call, static_cast<std::int32_t>(call.sequences), static_cast<std::int32_t>(call.tokens), rows) + 1;
    for (auto index = static_cast<std::int32_t>(blockIdx.x); index < tiles * call.kv_heads;
         index += static_cast<std::int32_t>(gridDim.x)) {
        // The last tiles see most keys: they come first.
        auto const number = tiles - 1 - index / call.kv_heads;
        auto const kv_head = index % call.kv_heads;
        // The last sequence whose tiles begin at this one or before it.
        std::int32_t sequence = 0;
        for (auto beyond = call.counts[1]; beyond - sequence > 1;) {
            auto const middle = (sequence + beyond) / 2;
            if (first_tile(call, middle, call.first[middle], rows) <= number) {
                sequence = middle;
            } else {
                beyond = middle;
            }
        }
        if (call.counts[1] == 0 || call.rows[sequence] < 2) continue;
        auto const tile_row = (number - first_tile(call, sequence, call.first[sequence], rows)) * rows;
        auto const all_rows = call.rows[sequence] * call.group;
        if (tile_row < 0 || tile_row >= all_rows) continue;
        auto const places = key_places(call, sequence);
        auto const token = static_cast<std::int64_t>(call.first[sequence]);
        __syncthreads();
        for (int i = thread; i < rows * width; i += attention_threads) {
            auto const row = i / width;
            auto const at = i - row * width;
            auto const query = (tile_row + row) / call.group;
            auto const head = kv_head * call.group + (tile_row + row - query * call.group);
            bool const is_there = tile_row + row < all_rows && at < call.key_dim;
            auto const* const q = static_cast<Staged const*>(call.q);
            memory.queries[i] =
                is_there ? staged_value(q[(token + query) * call.q_row + head * call.key_dim + at], call.element)
                         : 0.0F;
        }
        SeenKeys seen[array_size<thread_rows>];
        std::int32_t heads[array_size<thread_rows>];
        float sums[array_size<thread_rows>][array_size<4 * fours>];
        float greatest[array_size<thread_rows>];
        float weights[array_size<thread_rows>];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < thread_rows; ++i) {
            auto const row = tile_row + first_row + i;
            auto const query = row / call.group;
            heads[i] = kv_head * call.group + row - query * call.group;
            seen[i] = seen_keys(call, sequence, query);
            if (row >= all_rows) seen[i].end = seen[i].begin;
            greatest[i] = no_score();
            weights[i] = 0.0F;
            SHARDWISE_DEVICE_UNROLL
            for (int k = 0; k < 4 * fours; ++k) sums[i][k] = 0.0F;
        }
        // Edges of windows and diagonals only rise with the query.
        auto const last_row = tile_row + rows < all_rows ? tile_row + rows - 1 : all_rows - 1;
        auto const first_seen = seen_keys(call, sequence, tile_row / call.group);
        auto const last_seen = seen_keys(call, sequence, last_row / call.group);
        auto const begin = first_seen.begin;
        auto const end = last_seen.end;
        for (auto key = begin / keys * keys; key < end; key += keys) {
            float scores[array_size<thread_rows>][array_size<thread_keys>];
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < thread_rows; ++i) {
                SHARDWISE_DEVICE_UNROLL
                for (int j = 0; j < thread_keys; ++j) scores[i][j] = 0.0F;
            }
            for (int column = 0; column < width && column < call.key_dim; column += columns) {
                __syncthreads();
                load_tile<Cache, columns, keys, key_pitch>(call.k, places, key, begin, end,
                                                           static_cast<std::int64_t>(kv_head) * call.key_dim,
                                                           call.key_dim, column, has_packed_keys, memory.loaded);
                __syncthreads();
                SHARDWISE_DEVICE_UNROLL
                for (int at = 0; at < columns; at += 4) {
                    float of_key[array_size<thread_keys>][4];
                    SHARDWISE_DEVICE_UNROLL
                    for (int j = 0; j < thread_keys; ++j)
                        load_floats(memory.loaded + (lane + j * lanes) * key_pitch + at, of_key[j]);
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < thread_rows; ++i) {
                        float query[4];
                        load_floats(memory.queries + (first_row + i) * width + column + at, query);
                        SHARDWISE_DEVICE_UNROLL
                        for (int j = 0; j < thread_keys; ++j) {
                            SHARDWISE_DEVICE_UNROLL
                            for (int k = 0; k < 4; ++k) scores[i][j] = fused(query[k], of_key[j][k], scores[i][j]);
                        }
                    }
                }
            }
            float key_scale[array_size<thread_keys>];
            float value_scale[array_size<thread_keys>];
            SHARDWISE_DEVICE_UNROLL
            for (int j = 0; j < thread_keys; ++j) {
                key_scale[j] = 1.0F;
                value_scale[j] = 1.0F;
                auto const own = key + lane + j * lanes;
                if constexpr (sizeof(Cache) == 1) {
                    if (own < begin || own >= end) continue;
                    auto const place = places.of(own);
                    key_scale[j] = call.k.scales[place * call.k.scale_row + kv_head];
                    value_scale[j] = call.v.scales[place * call.v.scale_row + kv_head];
                }
            }
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < thread_rows; ++i) {
                auto most = no_score();
                SHARDWISE_DEVICE_UNROLL
                for (int j = 0; j < thread_keys; ++j) {
                    auto const own = key + lane + j * lanes;
                    bool const is_seen = own >= seen[i].begin && own < seen[i].end;
                    scores[i][j] = is_seen
                                       ? finish_score(call, scores[i][j], key_scale[j], heads[i], own, seen[i].position)
                                       : no_score();
                    most = greater_of(most, scores[i][j]);
                }
                SHARDWISE_DEVICE_UNROLL
                for (int mask = lanes / 2; mask > 0; mask /= 2)
                    most = greater_of(most, DeviceCode<Api>::shuffle_xor(most, mask));
                most = greater_of(greatest[i], most);
                auto const shift = most == no_score() ? 0.0F : most;
                auto const correction = device_exp(greatest[i] - shift);
                greatest[i] = most;
                weights[i] *= correction;
                SHARDWISE_DEVICE_UNROLL
                for (int j = 0; j < thread_keys; ++j) {
                    auto const weight = device_exp(scores[i][j] - shift);
                    weights[i] += weight;
                    memory.weights[(first_row + i) * weight_pitch + lane + j * lanes] = weight * value_scale[j];
                }
                SHARDWISE_DEVICE_UNROLL
                for (int k = 0; k < 4 * fours; ++k) sums[i][k] *= correction;
            }
            for (int first = 0; first < keys && key + first < end; first += value_keys) {
                __syncthreads();
                load_tile<Cache, width, value_keys, width>(call.v, places, key + first, begin, end,
                                                           static_cast<std::int64_t>(kv_head) * call.value_dim,
                                                           call.value_dim, 0, has_packed_values, memory.loaded);
                __syncthreads();
                // A value that a row does not see may be no number: the row's weight of it, a zero, is not multiplied.
                bool const is_edge = key + first < last_seen.begin || key + first + value_keys > first_seen.end;
                SHARDWISE_DEVICE_UNROLL
                for (int four = 0; four < value_keys; four += 4) {
                    float weight[array_size<thread_rows>][4];
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < thread_rows; ++i)
                        load_floats(memory.weights + (first_row + i) * weight_pitch + first + four, weight[i]);
                    SHARDWISE_DEVICE_UNROLL
                    for (int k = 0; k < 4; ++k) {
                        auto const own = key + first + four + k;
                        SHARDWISE_DEVICE_UNROLL
                        for (int part = 0; part < fours; ++part) {
                            float value[4];
                            load_floats(memory.loaded + (four + k) * width + (part * lanes + lane) * 4, value);
                            SHARDWISE_DEVICE_UNROLL
                            for (int i = 0; i < thread_rows; ++i) {
                                if (is_edge && (own < seen[i].begin || own >= seen[i].end)) continue;
                                SHARDWISE_DEVICE_UNROLL
                                for (int e = 0; e < 4; ++e)
                                    sums[i][part * 4 + e] = fused(weight[i][k], value[e], sums[i][part * 4 + e]);
                            }
                        }
                    }
                }
            }
        }
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < thread_rows; ++i) {
            SHARDWISE_DEVICE_UNROLL
            for (int mask = lanes / 2; mask > 0; mask /= 2)
                weights[i] += DeviceCode<Api>::shuffle_xor(weights[i], mask);
            auto const row = tile_row + first_row + i;
            auto const factor =
                last_factor({greatest[i], weights[i]}, call.sinks == nullptr ? nullptr : call.sinks + heads[i]);
            if (row >= all_rows) continue;
            auto* const to = static_cast<Staged*>(call.out) + (token + row / call.group) * call.out_row +
                             static_cast<std::int64_t>(heads[i]) * call.value_dim;
            SHARDWISE_DEVICE_UNROLL
            for (int k = 0; k < 4 * fours; ++k) {
                auto const at = (k / 4 * lanes + lane) * 4 + k % 4;
                if (at < call.value_dim) store_staged(to + at, sums[i][k] * factor, call.element);
            }
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
