// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/attention_sums.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Rows (a query and a head each) of a tile for heads of up to `width` elements.
template <int width>
inline constexpr int tile_rows = width > 128 ? 32 : 64;

/// Tiles of all sequences of several tokens at most: those of a sequence are numbered on from first_tile.
[[nodiscard]] SHARDWISE_DEVICE inline std::int32_t first_tile(StepAttentionPlan const& call, std::int32_t sequence,
                                                              std::int32_t first_token, int rows) {
    return first_token * call.group / rows + sequence;
}

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

/// Which rows of a call lie on packs.
struct TilePacks {
    bool has_queries;
    bool has_keys;
    bool has_values;
};

/// Attends for sequences of several tokens: a block for some queries and heads that share keys, over all that they see, 64 keys at
/// a time. Scores are never kept beyond those.
template <class Api, class Cache, int width>
__global__ void __launch_bounds__(attention_threads, (least_blocks<Api, 2>))
    attend_tiles(StepAttentionCall<Cache> call, TilePacks packs) {
    constexpr int rows = tile_rows<width>;
    constexpr int keys = 64;
    // Of queries and keys that are multiplied at once, and values of so many keys.
    constexpr int columns = 32;
    constexpr int value_keys = 16;
    constexpr int lanes = 16;
    constexpr int teams = attention_threads / lanes;
    constexpr int thread_rows = rows / teams;
    constexpr int thread_keys = keys / lanes;
    constexpr int fours = width / (4 * lanes);
    // Neighbouring rows begin in other banks.
    constexpr int pitch = columns + 4;
    constexpr int weight_pitch = keys + 4;
    constexpr int pairs = (rows + keys) * pitch;
    constexpr int loaded_floats = pairs > value_keys * width ? pairs : value_keys * width;
    struct alignas(16) Memory {
        /// Queries and keys, or values.
        float loaded[array_size<loaded_floats>];
        float weights[array_size<rows * weight_pitch>];
    };
    __shared__ Memory memory;
    auto* const of_queries = memory.loaded;
    auto* const of_keys = memory.loaded + rows * pitch;
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % lanes;
    // A thread's rows are this one and every eighth after it.
    auto const team = thread / lanes;
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
        auto const past = call.pages == nullptr ? 0 : call.past[sequence];
        auto const length = past + call.rows[sequence];
        auto const head_of = [&](std::int32_t row) { return kv_head * call.group + row % call.group; };

        // What a thread loads of the queries: packs of four of some rows; -1 where there is no row.
        constexpr int loads = rows * columns / 4 / attention_threads;
        constexpr int row_packs = columns / 4;
        std::int64_t query_at[array_size<loads>];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < loads; ++i) {
            auto const row = tile_row + (thread + i * attention_threads) / row_packs;
            auto const at =
                (token + row / call.group) * call.q_row + static_cast<std::int64_t>(head_of(row)) * call.key_dim;
            query_at[i] = row < all_rows ? at + thread % row_packs * 4 : -1;
        }
        // Where a thread's rows stand; -1 of none.
        std::int32_t positions[array_size<thread_rows>];
        float sums[array_size<thread_rows>][array_size<4 * fours>];
        float greatest[array_size<thread_rows>];
        float weights[array_size<thread_rows>];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < thread_rows; ++i) {
            auto const row = tile_row + team + i * teams;
            positions[i] = row < all_rows ? past + row / call.group : -1;
            greatest[i] = no_score();
            weights[i] = 0.0F;
            SHARDWISE_DEVICE_UNROLL
            for (int k = 0; k < 4 * fours; ++k) sums[i][k] = 0.0F;
        }
        // Edges of windows and diagonals only rise with the query.
        auto const last_row = tile_row + rows < all_rows ? tile_row + rows - 1 : all_rows - 1;
        auto const first_seen = seen_keys_at(call, past + tile_row / call.group, length);
        auto const last_seen = seen_keys_at(call, past + last_row / call.group, length);
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
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < loads; ++i) {
                    auto const pack = thread + i * attention_threads;
                    auto const at = column + thread % row_packs * 4;
                    float some[4] = {0.0F, 0.0F, 0.0F, 0.0F};
                    if (query_at[i] >= 0 && at < call.key_dim) {
                        auto const* const from = call.q + query_at[i] + column;
                        if (packs.has_queries) {
                            load_floats(from, some);
                        } else {
                            SHARDWISE_DEVICE_UNROLL
                            for (int k = 0; k < 4; ++k) {
                                if (at + k < call.key_dim) some[k] = from[k];
                            }
                        }
                    }
                    store_floats(of_queries + pack / row_packs * pitch + pack % row_packs * 4, some);
                }
                load_tile<Cache, columns, keys, pitch>(call.k, places, key, begin, end,
                                                       static_cast<std::int64_t>(kv_head) * call.key_dim, call.key_dim,
                                                       column, packs.has_keys, of_keys);
                __syncthreads();
                SHARDWISE_DEVICE_UNROLL
                for (int at = 0; at < columns; at += 4) {
                    float of_key[array_size<thread_keys>][4];
                    SHARDWISE_DEVICE_UNROLL
                    for (int j = 0; j < thread_keys; ++j)
                        load_floats(of_keys + (lane + j * lanes) * pitch + at, of_key[j]);
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < thread_rows; ++i) {
                        float query[4];
                        load_floats(of_queries + (team + i * teams) * pitch + at, query);
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
                auto const row = team + i * teams;
                auto const seen = seen_keys_at(call, positions[i], length);
                auto const head = call.slopes == nullptr ? 0 : head_of(tile_row + row);
                auto most = no_score();
                SHARDWISE_DEVICE_UNROLL
                for (int j = 0; j < thread_keys; ++j) {
                    auto const own = key + lane + j * lanes;
                    bool const is_seen = positions[i] >= 0 && own >= seen.begin && own < seen.end;
                    scores[i][j] =
                        is_seen ? finish_score(call, scores[i][j], key_scale[j], head, own - positions[i]) : no_score();
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
                    memory.weights[row * weight_pitch + lane + j * lanes] = weight * value_scale[j];
                }
                SHARDWISE_DEVICE_UNROLL
                for (int k = 0; k < 4 * fours; ++k) sums[i][k] *= correction;
            }
            for (int first = 0; first < keys && key + first < end; first += value_keys) {
                __syncthreads();
                load_tile<Cache, width, value_keys, width>(call.v, places, key + first, begin, end,
                                                           static_cast<std::int64_t>(kv_head) * call.value_dim,
                                                           call.value_dim, 0, packs.has_values, memory.loaded);
                __syncthreads();
                // A value that a row does not see may be no number: the row's weight of it, a zero, is not multiplied.
                bool const is_edge = key + first < last_seen.begin || key + first + value_keys > first_seen.end;
                SHARDWISE_DEVICE_UNROLL
                for (int four = 0; four < value_keys; four += 4) {
                    float weight[array_size<thread_rows>][4];
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < thread_rows; ++i)
                        load_floats(memory.weights + (team + i * teams) * weight_pitch + first + four, weight[i]);
                    SHARDWISE_DEVICE_UNROLL
                    for (int k = 0; k < 4; ++k) {
                        auto const own = key + first + four + k;
                        SHARDWISE_DEVICE_UNROLL
                        for (int part = 0; part < fours; ++part) {
                            float value[4];
                            load_floats(memory.loaded + (four + k) * width + (part * lanes + lane) * 4, value);
                            SHARDWISE_DEVICE_UNROLL
                            for (int i = 0; i < thread_rows; ++i) {
                                if (is_edge) {
                                    auto const seen = seen_keys_at(call, positions[i], length);
                                    if (own < seen.begin || own >= seen.end) continue;
                                }
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
            auto const row = tile_row + team + i * teams;
            auto const head = head_of(row);
            if (row >= all_rows) continue;
            auto const factor =
                last_factor({greatest[i], weights[i]}, call.sinks == nullptr ? nullptr : call.sinks + head);
            auto* const to =
                call.out + (token + row / call.group) * call.out_row + static_cast<std::int64_t>(head) * call.value_dim;
            SHARDWISE_DEVICE_UNROLL
            for (int k = 0; k < 4 * fours; ++k) {
                auto const at = (k / 4 * lanes + lane) * 4 + k % 4;
                if (at < call.value_dim) to[at] = sums[i][k] * factor;
            }
        }
        // The next tile's queries come after the reads of this one's.
        __syncthreads();
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
