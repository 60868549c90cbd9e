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

        __device__ void clear() {
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < keys; ++i) {
                SHARDWISE_DEVICE_UNROLL
                for (int eight = 0; eight < eights; ++eight) of[i][eight].clear();
            }
        }
        /// The keys of a group from `base` on, zeros of those that are not seen; `first` is the head's first element. What lies beyond
        /// the head's width stays as it is.
        __device__ void load(StepRowsCall<Cache> const& from, KeyPlaces const& places, std::int32_t base,
                             SeenKeys const& seen, std::int64_t first, int dim) {
            auto const key = base + group() * keys;
            bool const is_whole = key >= seen.begin && key + keys <= seen.end;
            place = key < seen.end && key + keys > seen.begin ? places.of(key) : -1;
            auto const* const data = from.data + first + lane() * 8 + (place < 0 ? 0 : place) * from.row;
            if (!is_whole) clear();
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < keys; ++i) {
                bool const is_seen = is_whole || (key + i >= seen.begin && key + i < seen.end);
                SHARDWISE_DEVICE_UNROLL
                for (int eight = 0; eight < eights; ++eight) {
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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
