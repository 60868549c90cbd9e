// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/singles_team.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Keys that a block attends to.
struct PartKeys {
    std::int32_t first;
    /// Of all its keys those that are seen, as they count in the sequence.
    SeenKeys seen;
};

/// The scores of a part's keys.
template <class Team>
__device__ void score_keys(StepAttentionCall<typename Team::Cache> const& call, KeyPlaces const& places,
                           PartKeys const& part, std::int32_t kv_head, std::int32_t first_head, std::int32_t heads,
                           SinglesMemory<Team>& memory) {
    constexpr int rows = Team::rows;
    constexpr int keys = Team::keys;
    auto const first_column = static_cast<std::int64_t>(kv_head) * call.key_dim;
    typename Team::Packs packs;
    packs.clear();
    auto base = part.first + (part.seen.begin - part.first) / Team::step * Team::step;
    packs.load(call.k, places, base, part.seen, first_column, call.key_dim);
    for (; base < part.seen.end; base += Team::step) {
        float scale[array_size<Team::scores>];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < Team::scores; ++i) {
            scale[i] = 1.0F;
            if constexpr (sizeof(typename Team::Cache) == 1) {
                auto const key = base + Team::group() * keys + Team::key(i);
                if (key >= part.seen.begin && key < part.seen.end)
                    scale[i] = call.k.scales[(packs.place + Team::key(i)) * call.k.scale_row + kv_head];
            }
        }
        float products[array_size<rows * keys>];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < rows * keys; ++i) products[i] = 0.0F;
        SHARDWISE_DEVICE_UNROLL
        for (int eight = 0; eight < Team::eights; ++eight) {
            float of_key[array_size<keys>][8];
            SHARDWISE_DEVICE_UNROLL
            for (int key = 0; key < keys; ++key) packs.of[key][eight].get(of_key[key]);
            SHARDWISE_DEVICE_UNROLL
            for (int row = 0; row < rows; ++row) {
                float query[8];
                load_floats(memory.queries + row * Team::width + (eight * Team::lanes + Team::lane()) * 8, query);
                SHARDWISE_DEVICE_UNROLL
                for (int key = 0; key < keys; ++key) {
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < 8; ++i) {
                        auto& product = products[row * keys + key];
                        product = fused(query[i], of_key[key][i], product);
                    }
                }
            }
        }
        if (base + Team::step < part.seen.end)
            packs.load(call.k, places, base + Team::step, part.seen, first_column, call.key_dim);
        Team::add_lanes(products);
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < Team::scores; ++i) {
            auto const key = base + Team::group() * keys + Team::key(i);
            bool const is_seen = Team::row() < heads && key >= part.seen.begin && key < part.seen.end;
            auto const score =
                is_seen ? finish_score(call, products[i], scale[i], first_head + Team::row(), key, part.seen.position)
                        : no_score();
            memory.scores[(key - part.first) * rows + Team::row()] = score;
        }
    }
}

/// Makes weights of the scores, and the sums of them.
template <class Team>
__device__ void weigh_keys(PartKeys const& part, SinglesMemory<Team>& memory) {
    using Code = DeviceCode<typename Team::Vendor>;
    constexpr int lanes = Team::weighing_lanes;
    constexpr int keys = step_part_keys / lanes / Team::halves;
    constexpr int own = Team::own_halves;
    auto const lane = Team::thread() % lanes;
    auto const team = Team::thread() / lanes;
    auto const row = team % Team::rows;
    auto const first_half = team / Team::rows * own;
    auto const first = first_half * lanes * keys + lane;
    float scores[array_size<own * keys>];
    auto greatest = no_score();
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < own * keys; ++i) {
        auto const key = first + i * lanes;
        bool const is_seen = part.first + key >= part.seen.begin && part.first + key < part.seen.end;
        scores[i] = is_seen ? memory.scores[key * Team::rows + row] : no_score();
        greatest = greater_of(greatest, scores[i]);
    }
    SHARDWISE_DEVICE_UNROLL
    for (int mask = lanes / 2; mask > 0; mask /= 2) greatest = greater_of(greatest, Code::shuffle_xor(greatest, mask));
    if (own < Team::halves) {
        if (lane == 0) memory.halves[first_half * Team::rows + row].greatest = greatest;
        __syncthreads();
        SHARDWISE_DEVICE_UNROLL
        for (int other = 0; other < Team::halves; ++other)
            greatest = greater_of(greatest, memory.halves[other * Team::rows + row].greatest);
    }
    // Where all are minus infinity the weights are zeros; a NaN among them stays one.
    auto const shift = greatest == no_score() ? 0.0F : greatest;
    SHARDWISE_DEVICE_UNROLL
    for (int half = 0; half < own; ++half) {
        float weights = 0.0F;
        SHARDWISE_DEVICE_UNROLL
        for (int i = half * keys; i < (half + 1) * keys; ++i) {
            auto const weight = device_exp(scores[i] - shift);
            weights += weight;
            memory.scores[(first + i * lanes) * Team::rows + row] = weight;
        }
        SHARDWISE_DEVICE_UNROLL
        for (int mask = lanes / 2; mask > 0; mask /= 2) weights += Code::shuffle_xor(weights, mask);
        if (lane != 0) continue;
        memory.halves[(first_half + half) * Team::rows + row].weights = weights;
        memory.halves[(first_half + half) * Team::rows + row].greatest = greatest;
    }
}

/// Adds up the weighted values of a part's keys: a thread's elements of it.
template <class Team>
__device__ void add_values(StepAttentionCall<typename Team::Cache> const& call, KeyPlaces const& places,
                           PartKeys const& part, std::int32_t kv_head, SinglesMemory<Team>& memory,
                           float (&out)[array_size<Team::elements>]) {
    using Code = DeviceCode<typename Team::Vendor>;
    constexpr int rows = Team::rows;
    constexpr int keys = Team::keys;
    constexpr bool is_bytes = sizeof(typename Team::Cache) == 1;
    auto const first_column = static_cast<std::int64_t>(kv_head) * call.value_dim;
    float sums[array_size<rows>][array_size<8 * Team::eights>];
    SHARDWISE_DEVICE_UNROLL
    for (int row = 0; row < rows; ++row) {
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 8 * Team::eights; ++i) sums[row][i] = 0.0F;
    }
    typename Team::Packs packs;
    packs.clear();
    auto base = part.first + (part.seen.begin - part.first) / Team::step * Team::step;
    packs.load(call.v, places, base, part.seen, first_column, call.value_dim);
    // The weights are there.
    __syncthreads();
    if (Team::thread() < rows) {
        auto all = memory.halves[Team::thread()];
        for (int other = 1; other < Team::halves; ++other)
            all.weights += memory.halves[other * rows + Team::thread()].weights;
        memory.part[Team::thread()] = all;
    }
    for (; base < part.seen.end; base += Team::step) {
        auto const current = packs;
        auto const key = base + Team::group() * keys;
        float scale[array_size<keys>];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < keys; ++i) {
            scale[i] = 1.0F;
            if constexpr (is_bytes) {
                if (key + i >= part.seen.begin && key + i < part.seen.end)
                    scale[i] = call.v.scales[(packs.place + i) * call.v.scale_row + kv_head];
            }
        }
        if (base + Team::step < part.seen.end)
            packs.load(call.v, places, base + Team::step, part.seen, first_column, call.value_dim);
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < keys; ++i) {
            float weight[array_size<rows>];
            load_floats(memory.scores + (key + i - part.first) * rows, weight);
            SHARDWISE_DEVICE_UNROLL
            for (int row = 0; row < rows && is_bytes; ++row) weight[row] *= scale[i];
            SHARDWISE_DEVICE_UNROLL
            for (int eight = 0; eight < Team::eights; ++eight) {
                float value[8];
                current.of[i][eight].get(value);
                SHARDWISE_DEVICE_UNROLL
                for (int row = 0; row < rows; ++row) {
                    SHARDWISE_DEVICE_UNROLL
                    for (int k = 0; k < 8; ++k) {
                        auto& sum = sums[row][eight * 8 + k];
                        sum = fused(weight[row], value[k], sum);
                    }
                }
            }
        }
    }
    auto const warp = Team::thread() / Code::warp_size;
    SHARDWISE_DEVICE_UNROLL
    for (int row = 0; row < rows; ++row) {
        SHARDWISE_DEVICE_UNROLL
        for (int eight = 0; eight < Team::eights; ++eight) {
            float some[8];
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < 8; ++i) {
                some[i] = sums[row][eight * 8 + i];
                SHARDWISE_DEVICE_UNROLL
                for (int mask = Code::warp_size / 2; mask >= Team::lanes; mask /= 2)
                    some[i] += Code::shuffle_xor(some[i], mask);
            }
            if (Team::thread() % Code::warp_size < Team::lanes)
                store_floats(
                    memory.values + (warp * rows + row) * Team::width + (eight * Team::lanes + Team::lane()) * 8, some);
        }
    }
    __syncthreads();
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < Team::elements; ++i) {
        auto const element = Team::thread() + i * Team::threads;
        out[i] = memory.values[element];
        SHARDWISE_DEVICE_UNROLL
        for (int other = 1; other < Team::warps; ++other) out[i] += memory.values[other * rows * Team::width + element];
    }
}

/// Takes a thread's elements of a part, or of a span, into those of what is before them.
template <class Team>
__device__ void take_in(float* values, RowSums* sums, float const (&others)[array_size<Team::elements>],
                        RowSums const* other_sums) {
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < Team::elements; ++i) {
        auto const element = Team::thread() + i * Team::threads;
        auto const row = element / Team::width;
        values[element] = merge_sums(sums[row], other_sums[row]).merged(values[element], others[i]);
    }
    __syncthreads();
    if (Team::thread() < Team::rows) {
        auto const row = Team::thread();
        sums[row] = merge_sums(sums[row], other_sums[row]).sums;
    }
    __syncthreads();
}

/// Attends for single tokens: a block to some parts of a context for up to `rows` heads of a group.
template <class Api, class Staged, class Cache, int lanes, int eights, int rows>
__global__ void __launch_bounds__(singles_threads, (least_blocks<Api, singles_blocks<rows * eights>>))
    attend_singles(StepAttentionCall<Cache> call) {
    using Team = SinglesTeam<Api, Cache, lanes, eights, rows>;
    auto& memory = block_memory<SinglesMemory<Team>>();
    auto const thread = Team::thread();
    auto const tiles = (call.group + rows - 1) / rows;
    auto const head_tiles = call.kv_heads * tiles;
    auto const items = static_cast<std::int64_t>(call.chunks) * call.sequences * head_tiles;
    for (auto index = static_cast<std::int64_t>(blockIdx.x); index < items; index += gridDim.x) {
        auto const item = single_item(call, index, head_tiles);
        if (!item.is_there) continue;
        auto const kv_head = item.head_tile / tiles;
        auto const first_in_group = item.head_tile % tiles * rows;
        auto const first_head = kv_head * call.group + first_in_group;
        auto const heads = call.group - first_in_group < rows ? call.group - first_in_group : rows;
        auto const token = static_cast<std::int64_t>(call.first[item.sequence]);
        auto const* const q = static_cast<Staged const*>(call.q) + token * call.q_row +
                              static_cast<std::int64_t>(first_head) * call.key_dim;
        for (int i = thread; i < rows * Team::width; i += Team::threads) {
            auto const row = i / Team::width;
            auto const at = i - row * Team::width;
            memory.queries[i] =
                row < heads && at < call.key_dim ? staged_value(q[row * call.key_dim + at], call.element) : 0.0F;
            memory.span_values[i] = 0.0F;
            memory.total_values[i] = 0.0F;
        }
        if (thread < rows) {
            memory.span[thread] = {no_score(), 0.0F};
            memory.total[thread] = {no_score(), 0.0F};
        }
        __syncthreads();
        auto const places = key_places(call, item.sequence);
        float part[array_size<Team::elements>];
        // It is merged with nothing.
        bool const is_one = item.parts.end - item.parts.begin == 1;
        for (auto number = item.parts.begin; number < item.parts.end; ++number) {
            auto keys = PartKeys{number * step_part_keys, item.seen};
            keys.seen.begin = keys.seen.begin > keys.first ? keys.seen.begin : keys.first;
            if (keys.seen.end > keys.first + step_part_keys) keys.seen.end = keys.first + step_part_keys;
            score_keys<Team>(call, places, keys, kv_head, first_head, heads, memory);
            __syncthreads();
            weigh_keys<Team>(keys, memory);
            add_values<Team>(call, places, keys, kv_head, memory, part);
            if (is_one) break;
            take_in<Team>(memory.span_values, memory.span, part, memory.part);
            if (call.chunk != 0 || ((number + 1) % step_span_parts != 0 && number + 1 != item.parts.end)) continue;
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < Team::elements; ++i) {
                auto const element = thread + i * Team::threads;
                part[i] = memory.span_values[element];
                memory.span_values[element] = 0.0F;
            }
            take_in<Team>(memory.total_values, memory.total, part, memory.span);
            if (thread < rows) memory.span[thread] = {no_score(), 0.0F};
            __syncthreads();
        }
        auto const* const values = call.chunk == 0 ? memory.total_values : memory.span_values;
        auto const* const sums = is_one ? memory.part : call.chunk == 0 ? memory.total : memory.span;
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < Team::elements; ++i) {
            auto const element = thread + i * Team::threads;
            auto const row = element / Team::width;
            auto const at = element - row * Team::width;
            if (row >= heads || at >= call.value_dim) continue;
            auto const head = first_head + row;
            // A merged zero is not negative.
            auto const value = is_one ? part[i] + 0.0F : values[element];
            if (item.is_whole) {
                auto const* const sink = call.sinks == nullptr ? nullptr : call.sinks + head;
                store_staged(static_cast<Staged*>(call.out) + token * call.out_row +
                                 static_cast<std::int64_t>(head) * call.value_dim + at,
                             value * last_factor(sums[row], sink), call.element);
            } else {
                auto const place = chunk_place(call, item.sequence, head, item.chunk);
                place.values[at] = value;
                if (at == 0) {
                    place.sums[0] = sums[row].greatest;
                    place.sums[1] = sums[row].weights;
                }
            }
        }
        // The next item's sums come after the reads of this one's.
        __syncthreads();
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
