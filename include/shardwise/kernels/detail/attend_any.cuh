// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/attention_sums.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Of a sequence of several tokens: the whole context of one head of a token.
[[nodiscard]] __device__ inline SingleItem token_item(StepAttentionPlan const& call, std::int64_t index) {
    SingleItem item{};
    auto const heads = static_cast<std::uint32_t>(call.heads);
    auto const token = static_cast<std::int64_t>(static_cast<std::uint32_t>(index) / heads);
    item.head_tile = static_cast<std::int32_t>(static_cast<std::uint32_t>(index) % heads);
    if (token >= call.counts[0]) return item;
    item.sequence = call.sequence[token];
    if (call.rows[item.sequence] < 2) return item;
    item.seen = seen_keys(call, item.sequence, static_cast<std::int32_t>(token) - call.first[item.sequence]);
    item.parts = seen_parts(item.seen);
    item.is_there = true;
    item.is_whole = true;
    return item;
}

/// Attends for any head width, wherever rows lie: a block for a head of a token, each thread for one column of its values. The
/// scores are made anew for every 128 columns.
template <class Api, class Staged, class Cache, bool is_single>
__global__ void __launch_bounds__(attention_threads, (least_blocks<Api, 4>)) attend_any(StepAttentionCall<Cache> call) {
    constexpr int lanes = 16;
    constexpr int groups = attention_threads / lanes;
    constexpr int scores_of_thread = step_part_keys / attention_threads;
    __shared__ float scores[step_part_keys];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % lanes;
    auto const items =
        is_single ? static_cast<std::int64_t>(call.chunks) * call.sequences * call.heads : call.tokens * call.heads;
    for (auto index = static_cast<std::int64_t>(blockIdx.x); index < items; index += gridDim.x) {
        auto const item = is_single ? single_item(call, index, call.heads) : token_item(call, index);
        if (!item.is_there) continue;
        auto const head = item.head_tile;
        auto const kv_head = head / call.group;
        auto const position = item.seen.position;
        auto const past = call.pages == nullptr ? 0 : call.past[item.sequence];
        auto const token = static_cast<std::int64_t>(call.first[item.sequence]) + position - past;
        auto const places = key_places(call, item.sequence);
        auto const* const q =
            static_cast<Staged const*>(call.q) + token * call.q_row + static_cast<std::int64_t>(head) * call.key_dim;
        for (std::int32_t column = 0; column < call.value_dim; column += attention_threads) {
            bool const is_column = column + thread < call.value_dim;
            float span_value = 0.0F;
            float total_value = 0.0F;
            RowSums span{no_score(), 0.0F};
            RowSums total{no_score(), 0.0F};
            for (auto part = item.parts.begin; part < item.parts.end; ++part) {
                auto const first_key = part * step_part_keys;
                auto const begin = item.seen.begin > first_key ? item.seen.begin - first_key : 0;
                auto const end =
                    item.seen.end - first_key < step_part_keys ? item.seen.end - first_key : step_part_keys;
                // The reads of the part before are over.
                __syncthreads();
                for (int base = 0; base < step_part_keys; base += groups) {
                    auto const key = base + thread / lanes;
                    bool const is_seen = key >= begin && key < end;
                    auto score = no_score();
                    if (base + groups > begin && base < end) {
                        auto const place = is_seen ? places.of(first_key + key) : 0;
                        auto const* const k =
                            call.k.data + place * call.k.row + static_cast<std::int64_t>(kv_head) * call.key_dim;
                        float product = 0.0F;
                        for (int i = lane; i < call.key_dim && is_seen; i += lanes)
                            product = fused(staged_value(q[i], call.element), element_value(k[i]), product);
                        SHARDWISE_DEVICE_UNROLL
                        for (int mask = lanes / 2; mask > 0; mask /= 2)
                            product += DeviceCode<Api>::shuffle_xor(product, mask);
                        float scale = 1.0F;
                        if constexpr (sizeof(Cache) == 1) {
                            if (is_seen) scale = call.k.scales[place * call.k.scale_row + kv_head];
                        }
                        if (is_seen) score = finish_score(call, product, scale, head, first_key + key, position);
                    }
                    if (lane == 0) scores[key] = score;
                }
                __syncthreads();
                auto greatest = no_score();
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < scores_of_thread; ++i)
                    greatest = greater_of(greatest, scores[thread + i * attention_threads]);
                greatest = block_greatest<Api, attention_threads>(greatest);
                auto const shift = greatest == no_score() ? 0.0F : greatest;
                float weights = 0.0F;
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < scores_of_thread; ++i) {
                    auto const key = thread + i * attention_threads;
                    auto weight = device_exp(scores[key] - shift);
                    weights += weight;
                    if constexpr (sizeof(Cache) == 1) {
                        if (key >= begin && key < end)
                            weight *= call.v.scales[places.of(first_key + key) * call.v.scale_row + kv_head];
                    }
                    scores[key] = weight;
                }
                // It has a barrier: all see the weights.
                weights = block_sum<Api, attention_threads>(weights);
                float value = 0.0F;
                auto const at = static_cast<std::int64_t>(kv_head) * call.value_dim + column + thread;
                for (auto key = begin; key < end && is_column; ++key)
                    value = fused(scores[key], element_value(call.v.data[places.of(first_key + key) * call.v.row + at]),
                                  value);
                auto merged = merge_sums(span, {greatest, weights});
                span_value = merged.merged(span_value, value);
                span = merged.sums;
                if (call.chunk != 0 && is_single) continue;
                if ((part + 1) % step_span_parts != 0 && part + 1 != item.parts.end) continue;
                merged = merge_sums(total, span);
                total_value = merged.merged(total_value, span_value);
                total = merged.sums;
                span_value = 0.0F;
                span = {no_score(), 0.0F};
            }
            bool const is_span = call.chunk != 0 && is_single;
            auto const& sums = is_span ? span : total;
            auto const value = is_span ? span_value : total_value;
            if (item.is_whole) {
                auto const* const sink = call.sinks == nullptr ? nullptr : call.sinks + head;
                if (is_column)
                    store_staged(static_cast<Staged*>(call.out) + token * call.out_row +
                                     static_cast<std::int64_t>(head) * call.value_dim + column + thread,
                                 value * last_factor(sums, sink), call.element);
            } else {
                auto const place = chunk_place(call, item.sequence, head, item.chunk);
                if (is_column) place.values[column + thread] = value;
                if (column == 0 && thread == 0) {
                    place.sums[0] = sums.greatest;
                    place.sums[1] = sums.weights;
                }
            }
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
