// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/attention_sums.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int singles_threads = 128;

/// Blocks that registers are left for, by the elements of a thread.
template <int eights>
inline constexpr int singles_blocks = (eights > 4 ? 384 : 512) / singles_threads;

/// How a block attends for single tokens: `lanes` threads read a key together, `eights` times eight elements each, and compute `rows`
/// heads of its group.
template <class Api, class CacheElementType, int lane_count, int eight_count, int row_count>
struct SinglesTeam {
    using Vendor = Api;
    using Cache = CacheElementType;
    static constexpr int lanes = lane_count;
    static constexpr int eights = eight_count;
    static constexpr int rows = row_count;
    static constexpr int width = lanes * 8 * eights;
    static constexpr int threads = singles_threads;
    static constexpr int groups = threads / lanes;
    static constexpr int warps = threads / DeviceCode<Api>::warp_size;
    /// Neighbouring keys that a group reads at once, which lie in one page, and those of a block.
    static constexpr int keys = eights > 1 || sizeof(Cache) == 4 ? 2 : 4;
    static constexpr int step = keys * groups;
    /// Scores of a thread, all of one row, after they were added up over the lanes, and threads that have the same ones.
    static constexpr int copies = rows * keys < lanes ? lanes / (rows * keys) : 1;
    static constexpr int scores = rows * keys * copies / lanes;
    static constexpr int row_lanes = lanes / rows;
    /// Threads that make weights of a row's scores, and how often there are so many.
    static constexpr int weighing_lanes = 16;
    static constexpr int sections = threads / weighing_lanes / rows;
    /// Elements of the rows' sums that a thread has.
    static constexpr int elements = rows * width / threads;
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

    /// What a thread has of its group's keys.
    struct Packs {
        Eight<Cache> of[array_size<keys>][array_size<eights>];
        /// Of the first key in memory; -1 where none is seen.
        std::int64_t place;

        /// The keys of a group from `base` on, zeros of those that are not seen; `first` is the head's first element.
        __device__ void load(StepRowsCall<Cache> const& from, KeyPlaces const& places, std::int32_t base,
                             SeenKeys const& seen, std::int64_t first, int dim) {
            auto const key = base + group() * keys;
            place = key < seen.end && key + keys > seen.begin ? places.of(key) : -1;
            auto const* const data = from.data + first + lane() * 8 + (place < 0 ? 0 : place) * from.row;
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < keys; ++i) {
                bool const is_seen = key + i >= seen.begin && key + i < seen.end;
                SHARDWISE_DEVICE_UNROLL
                for (int eight = 0; eight < eights; ++eight) {
                    of[i][eight].clear();
                    if (is_seen && (eight * lanes + lane()) * 8 < dim)
                        of[i][eight].load(data + i * from.row + eight * lanes * 8);
                }
            }
        }
    };
};

/// What the threads of a block know together.
template <class Team>
struct alignas(16) SinglesMemory {
    float queries[array_size<Team::rows * Team::width>];
    /// Of a part: scores, and then weights, [keys, rows].
    float scores[array_size<step_part_keys * Team::rows>];
    /// The sums of each warp over its keys of a part.
    float values[array_size<Team::warps * Team::rows * Team::width>];
    RowSums sections[array_size<Team::sections * Team::rows>];
    RowSums part[array_size<Team::rows>];
    /// Of parts of a span, and of spans.
    float span_values[array_size<Team::rows * Team::width>];
    float total_values[array_size<Team::rows * Team::width>];
    RowSums span[array_size<Team::rows>];
    RowSums total[array_size<Team::rows>];
};

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
                is_seen ? finish_score(call, products[i], scale[i], first_head + Team::row(), key - part.seen.position)
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
    constexpr int keys = step_part_keys / lanes / Team::sections;
    auto const lane = Team::thread() % lanes;
    // Of each row several teams have a section of the keys each.
    auto const team = Team::thread() / lanes;
    auto const row = team % Team::rows;
    auto const section = team / Team::rows;
    auto const first = section * lanes * keys + lane;
    float scores[array_size<keys>];
    auto greatest = no_score();
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < keys; ++i) {
        auto const key = first + i * lanes;
        bool const is_seen = part.first + key >= part.seen.begin && part.first + key < part.seen.end;
        scores[i] = is_seen ? memory.scores[key * Team::rows + row] : no_score();
        greatest = greater_of(greatest, scores[i]);
    }
    SHARDWISE_DEVICE_UNROLL
    for (int mask = lanes / 2; mask > 0; mask /= 2) greatest = greater_of(greatest, Code::shuffle_xor(greatest, mask));
    if (lane == 0) memory.sections[section * Team::rows + row].greatest = greatest;
    __syncthreads();
    SHARDWISE_DEVICE_UNROLL
    for (int other = 0; other < Team::sections; ++other)
        greatest = greater_of(greatest, memory.sections[other * Team::rows + row].greatest);
    // Where all are minus infinity the weights are zeros; a NaN among them stays one.
    auto const shift = greatest == no_score() ? 0.0F : greatest;
    float weights = 0.0F;
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < keys; ++i) {
        auto const weight = device_exp(scores[i] - shift);
        weights += weight;
        memory.scores[(first + i * lanes) * Team::rows + row] = weight;
    }
    SHARDWISE_DEVICE_UNROLL
    for (int mask = lanes / 2; mask > 0; mask /= 2) weights += Code::shuffle_xor(weights, mask);
    if (lane == 0) memory.sections[section * Team::rows + row].weights = weights;
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
    auto base = part.first + (part.seen.begin - part.first) / Team::step * Team::step;
    packs.load(call.v, places, base, part.seen, first_column, call.value_dim);
    // The weights are there.
    __syncthreads();
    if (Team::thread() < rows) {
        auto all = memory.sections[Team::thread()];
        for (int other = 1; other < Team::sections; ++other) {
            auto const& section = memory.sections[other * rows + Team::thread()];
            all.greatest = greater_of(all.greatest, section.greatest);
            all.weights += section.weights;
        }
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
template <class Api, class Cache, int lanes, int eights, int rows>
__global__ void __launch_bounds__(singles_threads, singles_blocks<rows * eights>)
    attend_singles(StepAttentionCall<Cache> call) {
    using Team = SinglesTeam<Api, Cache, lanes, eights, rows>;
    __shared__ SinglesMemory<Team> memory;
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
        for (int i = thread; i < rows * Team::width; i += Team::threads) {
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
                call.out[token * call.out_row + static_cast<std::int64_t>(head) * call.value_dim + at] =
                    value * last_factor(sums[row], sink);
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
