// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/attention_sums.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How a block attends for single tokens: `lanes` threads read a key together, `eights` times eight elements each, and compute `rows`
/// heads of its group.
template <class Api, class Cache, int lanes, int eights, int rows>
struct SinglesTeam {
    static constexpr int width = lanes * 8 * eights;
    /// Keys that a block reads at once, and those that a thread has under way.
    static constexpr int groups = attention_threads / lanes;
    static constexpr int keys = rows * eights * static_cast<int>(sizeof(Cache)) > 8 ? 2 : 4;
    static constexpr int step = keys * groups;
    /// Scores of a thread, all of one row, after they were added up over the lanes, and threads that have the same ones.
    static constexpr int copies = rows * keys < lanes ? lanes / (rows * keys) : 1;
    static constexpr int scores = rows * keys * copies / lanes;
    static constexpr int row_lanes = lanes / rows;
    /// Elements of the rows' sums that a thread has.
    static constexpr int elements = rows * width / attention_threads;
    static_assert(rows <= lanes && step_part_keys % step == 0, "a thread's scores are of one row");

    static __device__ int thread() { return static_cast<int>(threadIdx.x); }
    static __device__ int lane() { return thread() % lanes; }
    static __device__ int group() { return thread() / lanes; }
    /// The row and the key, from 0 to keys - 1, of a thread's scores.
    static __device__ int row() { return lane() / row_lanes; }
    static __device__ int key(int score) { return lane() % row_lanes / copies * scores + score; }

    /// Adds up values[row * keys + key] over the lanes; a thread is left with its own scores in the first ones.
    static __device__ void add_lanes(float (&values)[array_size<rows * keys>]) {
        SHARDWISE_DEVICE_UNROLL
        for (int mask = lanes / 2, count = rows * keys / 2; mask > 0; mask /= 2, count /= 2) {
            if (count == 0) {
                values[0] += DeviceCode<Api>::shuffle_xor(values[0], mask);
                continue;
            }
            bool const is_upper = (lane() & mask) != 0;
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < rows * keys / 2; ++i) {
                if (i >= count) continue;
                auto const sent = is_upper ? values[i] : values[i + count];
                auto const kept = is_upper ? values[i + count] : values[i];
                values[i] = kept + DeviceCode<Api>::shuffle_xor(sent, mask);
            }
        }
    }
    /// What the thread of a row that has a key's score holds.
    static __device__ float of_row(float value, int row, int key = 0) {
        auto const warp_lane = thread() % DeviceCode<Api>::warp_size;
        return DeviceCode<Api>::shuffle_from(value, warp_lane - lane() + row * row_lanes + key / scores * copies);
    }

    struct Pack {
        Eight<Cache> of[array_size<eights>];

        /// Of the row at a place; zeros of none.
        __device__ void load(StepRowsCall<Cache> const& rows_of, std::int64_t place, std::int64_t first, int dim) {
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < eights; ++i) {
                auto const at = (i * lanes + lane()) * 8;
                of[i].clear();
                if (place >= 0 && at < dim) of[i].load(rows_of.data + place * rows_of.row + first + at);
            }
        }
    };
};

/// What the threads of a block know together.
template <class Team, int rows>
struct alignas(16) SinglesMemory {
    float queries[array_size<rows * Team::width>];
    /// The sums of each group of threads over its keys of a part, and what they are multiplied by.
    float values[array_size<Team::groups * rows * Team::width>];
    RowSums sums[array_size<Team::groups * rows>];
    float factors[array_size<Team::groups * rows>];
    RowSums part[array_size<rows>];
    /// Of parts of a span, and of spans.
    float span_values[array_size<rows * Team::width>];
    float total_values[array_size<rows * Team::width>];
    RowSums span[array_size<rows>];
    RowSums total[array_size<rows>];
};

/// Attends to the keys of a part that are seen, and leaves each group's sums in memory.
template <class Team, class Api, class Cache, int lanes, int eights, int rows>
__device__ void attend_part(StepAttentionCall<Cache> const& call, KeyPlaces const& places, SeenKeys const& seen,
                            std::int32_t part, std::int32_t kv_head, std::int32_t first_head, bool is_row,
                            SinglesMemory<Team, rows>& memory) {
    constexpr int keys = Team::keys;
    constexpr int scores = Team::scores;
    auto const first_key = part * step_part_keys;
    auto const group = Team::group();
    auto const first_of_key = static_cast<std::int64_t>(kv_head) * call.key_dim;
    auto const first_of_value = static_cast<std::int64_t>(kv_head) * call.value_dim;
    auto const begin = seen.begin > first_key ? seen.begin - first_key : 0;
    auto const end = seen.end - first_key < step_part_keys ? seen.end - first_key : step_part_keys;

    float sums[array_size<rows>][array_size<8 * eights>];
    SHARDWISE_DEVICE_UNROLL
    for (int row = 0; row < rows; ++row) {
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 8 * eights; ++i) sums[row][i] = 0.0F;
    }
    auto greatest = no_score();
    float weights = 0.0F;
    typename Team::Pack loaded[array_size<keys>];
    typename Team::Pack values[array_size<keys>];
    std::int64_t place[array_size<keys>];
    auto const load_keys = [&](std::int32_t base) {
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < keys; ++i) {
            auto const key = base + i * Team::groups + group;
            bool const is_seen = key >= begin && key < end;
            place[i] = is_seen ? places.of(first_key + key) : -1;
        }
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < keys; ++i) loaded[i].load(call.k, place[i], first_of_key, call.key_dim);
    };
    // Steps are the same whatever is seen of them: what is added does not depend on it.
    load_keys(begin / Team::step * Team::step);
    for (auto base = begin / Team::step * Team::step; base < end; base += Team::step) {
        float key_scale[array_size<scores>];
        float value_scale[array_size<scores>];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < scores; ++i) {
            key_scale[i] = 1.0F;
            value_scale[i] = 1.0F;
            auto const key = base + Team::key(i) * Team::groups + group;
            if constexpr (sizeof(Cache) == 1) {
                if (key < begin || key >= end) continue;
                auto const at = places.of(first_key + key);
                key_scale[i] = call.k.scales[at * call.k.scale_row + kv_head];
                value_scale[i] = call.v.scales[at * call.v.scale_row + kv_head];
            }
        }
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < keys; ++i) values[i].load(call.v, place[i], first_of_value, call.value_dim);

        float products[array_size<rows * keys>];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < rows * keys; ++i) products[i] = 0.0F;
        SHARDWISE_DEVICE_UNROLL
        for (int eight = 0; eight < eights; ++eight) {
            float of_key[array_size<keys>][8];
            SHARDWISE_DEVICE_UNROLL
            for (int key = 0; key < keys; ++key) loaded[key].of[eight].get(of_key[key]);
            SHARDWISE_DEVICE_UNROLL
            for (int row = 0; row < rows; ++row) {
                float query[8];
                load_floats(memory.queries + row * Team::width + (eight * lanes + Team::lane()) * 8, query);
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
        if (base + Team::step < end) load_keys(base + Team::step);

        Team::add_lanes(products);
        auto most = no_score();
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < scores; ++i) {
            auto const key = base + Team::key(i) * Team::groups + group;
            bool const is_seen = is_row && key >= begin && key < end;
            products[i] = is_seen ? finish_score(call, products[i], key_scale[i], first_head + Team::row(),
                                                 first_key + key - seen.position)
                                  : no_score();
            most = greater_of(most, products[i]);
        }
        SHARDWISE_DEVICE_UNROLL
        for (int mask = Team::row_lanes / 2; mask >= Team::copies; mask /= 2)
            most = greater_of(most, DeviceCode<Api>::shuffle_xor(most, mask));
        most = greater_of(greatest, most);
        // Where all are minus infinity the weights are zeros; a NaN among them stays one.
        auto const shift = most == no_score() ? 0.0F : most;
        auto const correction = device_exp(greatest - shift);
        greatest = most;
        weights *= correction;
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < scores; ++i) {
            products[i] = device_exp(products[i] - shift);
            weights += products[i];
            if constexpr (sizeof(Cache) == 1) products[i] *= value_scale[i];
        }
        float weight[array_size<rows>][array_size<keys>];
        SHARDWISE_DEVICE_UNROLL
        for (int row = 0; row < rows; ++row) {
            auto const factor = Team::of_row(correction, row);
            SHARDWISE_DEVICE_UNROLL
            for (int key = 0; key < keys; ++key) weight[row][key] = Team::of_row(products[key % scores], row, key);
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < 8 * eights; ++i) sums[row][i] *= factor;
        }
        SHARDWISE_DEVICE_UNROLL
        for (int eight = 0; eight < eights; ++eight) {
            SHARDWISE_DEVICE_UNROLL
            for (int key = 0; key < keys; ++key) {
                float of_value[8];
                values[key].of[eight].get(of_value);
                SHARDWISE_DEVICE_UNROLL
                for (int row = 0; row < rows; ++row) {
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < 8; ++i) {
                        auto& sum = sums[row][eight * 8 + i];
                        sum = fused(weight[row][key], of_value[i], sum);
                    }
                }
            }
        }
    }
    SHARDWISE_DEVICE_UNROLL
    for (int mask = Team::row_lanes / 2; mask >= Team::copies; mask /= 2)
        weights += DeviceCode<Api>::shuffle_xor(weights, mask);
    if (Team::lane() % Team::row_lanes == 0) memory.sums[group * rows + Team::row()] = {greatest, weights};
    SHARDWISE_DEVICE_UNROLL
    for (int row = 0; row < rows; ++row) {
        SHARDWISE_DEVICE_UNROLL
        for (int eight = 0; eight < eights; ++eight) {
            float some[8];
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < 8; ++i) some[i] = sums[row][eight * 8 + i];
            store_floats(memory.values + (group * rows + row) * Team::width + (eight * lanes + Team::lane()) * 8, some);
        }
    }
}

/// Adds up what the groups of threads have of a part, in their order: a thread's elements of it.
template <class Team, int rows>
__device__ void add_groups(SinglesMemory<Team, rows>& memory, float (&part)[array_size<Team::elements>]) {
    auto const thread = Team::thread();
    __syncthreads();
    if (thread < Team::groups * rows) {
        auto const row = thread % rows;
        auto greatest = memory.sums[row].greatest;
        for (int group = 1; group < Team::groups; ++group)
            greatest = greater_of(greatest, memory.sums[group * rows + row].greatest);
        auto const& own = memory.sums[thread];
        memory.factors[thread] = own.greatest == no_score() ? 0.0F : device_exp(own.greatest - greatest);
        if (thread < rows) memory.part[row].greatest = greatest;
    }
    __syncthreads();
    if (thread < rows) {
        float weights = 0.0F;
        for (int group = 0; group < Team::groups; ++group) {
            auto const at = group * rows + thread;
            weights = fused(memory.sums[at].weights, memory.factors[at], weights);
        }
        memory.part[thread].weights = weights;
    }
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < Team::elements; ++i) {
        auto const element = thread + i * attention_threads;
        auto const row = element / Team::width;
        part[i] = 0.0F;
        SHARDWISE_DEVICE_UNROLL
        for (int group = 0; group < Team::groups; ++group) {
            auto const value = memory.values[group * rows * Team::width + element];
            part[i] = fused(value, memory.factors[group * rows + row], part[i]);
        }
    }
    __syncthreads();
}

/// Takes a thread's elements of a part, or of a span, into those of what is before them.
template <class Team, int rows>
__device__ void take_in(float* values, RowSums* sums, float const (&others)[array_size<Team::elements>],
                        RowSums const* other_sums) {
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < Team::elements; ++i) {
        auto const element = Team::thread() + i * attention_threads;
        auto const row = element / Team::width;
        values[element] = merge_sums(sums[row], other_sums[row]).merged(values[element], others[i]);
    }
    __syncthreads();
    if (Team::thread() < rows) {
        auto const row = Team::thread();
        sums[row] = merge_sums(sums[row], other_sums[row]).sums;
    }
    __syncthreads();
}

/// Attends for single tokens: a block to some parts of a context for up to `rows` heads of a group.
template <class Api, class Cache, int lanes, int eights, int rows>
__global__ void __launch_bounds__(attention_threads, sizeof(Cache) == 1 || rows * eights > 4 ? 2 : 3)
    attend_singles(StepAttentionCall<Cache> call) {
    using Team = SinglesTeam<Api, Cache, lanes, eights, rows>;
    __shared__ SinglesMemory<Team, rows> memory;
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
        auto const* const q = call.q + token * call.q_row + static_cast<std::int64_t>(first_head) * call.key_dim;
        for (int i = thread; i < rows * Team::width; i += attention_threads) {
            auto const row = i / Team::width;
            auto const at = i - row * Team::width;
            memory.queries[i] = row < heads && at < call.key_dim ? q[row * call.key_dim + at] : 0.0F;
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
        for (auto number = item.parts.begin; number < item.parts.end; ++number) {
            attend_part<Team, Api, Cache, lanes, eights, rows>(call, places, item.seen, number, kv_head, first_head,
                                                               Team::row() < heads, memory);
            add_groups<Team, rows>(memory, part);
            take_in<Team, rows>(memory.span_values, memory.span, part, memory.part);
            if (call.chunk != 0 || ((number + 1) % step_span_parts != 0 && number + 1 != item.parts.end)) continue;
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < Team::elements; ++i) {
                auto const element = thread + i * attention_threads;
                part[i] = memory.span_values[element];
                memory.span_values[element] = 0.0F;
            }
            take_in<Team, rows>(memory.total_values, memory.total, part, memory.span);
            if (thread < rows) memory.span[thread] = {no_score(), 0.0F};
            __syncthreads();
        }
        auto const* const values = call.chunk == 0 ? memory.total_values : memory.span_values;
        auto const* const sums = call.chunk == 0 ? memory.total : memory.span;
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < Team::elements; ++i) {
            auto const element = thread + i * attention_threads;
            auto const row = element / Team::width;
            auto const at = element - row * Team::width;
            if (row >= heads || at >= call.value_dim) continue;
            auto const head = first_head + row;
            if (item.is_whole) {
                auto const* const sink = call.sinks == nullptr ? nullptr : call.sinks + head;
                call.out[token * call.out_row + static_cast<std::int64_t>(head) * call.value_dim + at] =
                    values[element] * last_factor(sums[row], sink);
            } else {
                auto const place = chunk_place(call, item.sequence, head, item.chunk);
                place.values[at] = values[element];
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
