// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/attention_sums.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Spans that a block merges at once, and columns.
constexpr int merged_spans = 16;
constexpr int merged_columns = 64;

/// The sums of merge_sums, where its factors are known.
__device__ inline void take_in_sums(RowSums& sums, RowSums const& others, MergeFactors const& factors) {
    if (others.greatest == no_score()) return;
    sums.weights = sums.greatest == no_score() ? others.weights
                                               : fused(sums.weights, factors.own, others.weights * factors.theirs);
    sums.greatest = factors.sums.greatest;
}

/// Merges what the blocks of attend_singles have left of a row, as one block would have: parts of a span, then spans, in their order.
/// A block has 64 columns of a row, a thread `width` of them at once, 1 or 4.
template <class Staged, unsigned width>
__global__ void __launch_bounds__(attention_threads) merge_chunks(StepAttentionPlan call) {
    constexpr int most = merged_spans * step_span_parts;
    static_assert(most <= attention_threads && merged_columns <= attention_threads);
    __shared__ RowSums sums[most];
    __shared__ MergeFactors factors[most];
    __shared__ RowSums spans[merged_spans + 1];
    __shared__ MergeFactors span_factors[merged_spans];
    __shared__ float values[merged_spans * merged_columns];
    auto const thread = static_cast<int>(threadIdx.x);
    // Chunks of a span, and of all spans that are merged at once.
    auto const in_span = step_span_parts / call.chunk;
    auto const at_once = merged_spans * in_span;
    auto const columns = (call.value_dim + merged_columns - 1) / merged_columns;
    auto const items = static_cast<std::int32_t>(call.sequences) * call.heads * columns;
    for (auto item = static_cast<std::int32_t>(blockIdx.x); item < items;
         item += static_cast<std::int32_t>(gridDim.x)) {
        auto const row = item / columns;
        auto const column = (item - row * columns) * merged_columns;
        auto const sequence = row / call.heads;
        auto const head = row - sequence * call.heads;
        if (sequence >= call.counts[1] || call.rows[sequence] != 1) continue;
        auto const parts = seen_parts(seen_keys(call, sequence, 0));
        auto const begin = parts.begin / call.chunk;
        auto const end = (parts.end + call.chunk - 1) / call.chunk;
        // One block had all of it.
        if (end - begin < 2) continue;
        float total = 0.0F;
        __syncthreads();
        if (thread == 0) spans[merged_spans] = {no_score(), 0.0F};
        for (auto first = begin / at_once * at_once; first < end; first += at_once) {
            if (thread < at_once) {
                auto const chunk = first + thread;
                RowSums own{no_score(), 0.0F};
                if (chunk >= begin && chunk < end) {
                    auto const* const from = chunk_place(call, sequence, head, chunk).sums;
                    own = {from[0], from[1]};
                }
                sums[thread] = own;
            }
            __syncthreads();
            if (thread < at_once) {
                auto greatest = no_score();
                for (int i = thread / in_span * in_span; i < thread; ++i)
                    greatest = greater_of(greatest, sums[i].greatest);
                factors[thread] = merge_sums({greatest, 1.0F}, sums[thread]);
            }
            __syncthreads();
            if (thread < merged_spans) {
                RowSums span{no_score(), 0.0F};
                for (int i = thread * in_span; i < (thread + 1) * in_span; ++i) take_in_sums(span, sums[i], factors[i]);
                spans[thread] = span;
            }
            // The values of the spans, a warp's worth of columns of one each.
            constexpr int packs = merged_columns / static_cast<int>(width);
            for (int i = thread; i < merged_spans * packs; i += attention_threads) {
                auto const span = i / packs;
                auto const at = (i - span * packs) * static_cast<int>(width);
                float merged[width];
                SHARDWISE_DEVICE_UNROLL
                for (unsigned k = 0; k < width; ++k) merged[k] = 0.0F;
                if (column + at < call.value_dim) {
                    Portion<float, width> loaded[step_span_parts];
                    SHARDWISE_DEVICE_UNROLL
                    for (int part = 0; part < step_span_parts; ++part) {
                        auto const chunk = first + span * in_span + part;
                        if (part < in_span && chunk >= begin && chunk < end)
                            loaded[part].load(chunk_place(call, sequence, head, chunk).values + column + at);
                    }
                    SHARDWISE_DEVICE_UNROLL
                    for (int part = 0; part < step_span_parts; ++part) {
                        auto const chunk = first + span * in_span + part;
                        if (part >= in_span || chunk < begin || chunk >= end) continue;
                        float other[width];
                        loaded[part].get(other);
                        SHARDWISE_DEVICE_UNROLL
                        for (unsigned k = 0; k < width; ++k)
                            merged[k] = factors[span * in_span + part].merged(merged[k], other[k]);
                    }
                }
                SHARDWISE_DEVICE_UNROLL
                for (unsigned k = 0; k < width; ++k)
                    values[span * merged_columns + at + static_cast<int>(k)] = merged[k];
            }
            __syncthreads();
            if (thread < merged_spans) {
                auto greatest = spans[merged_spans].greatest;
                for (int i = 0; i < thread; ++i) greatest = greater_of(greatest, spans[i].greatest);
                span_factors[thread] = merge_sums({greatest, 1.0F}, spans[thread]);
            }
            __syncthreads();
            for (int span = 0; span < merged_spans && thread < merged_columns; ++span)
                total = span_factors[span].merged(total, values[span * merged_columns + thread]);
            if (thread == 0) {
                for (int span = 0; span < merged_spans; ++span)
                    take_in_sums(spans[merged_spans], spans[span], span_factors[span]);
            }
            __syncthreads();
        }
        if (thread < merged_columns && column + thread < call.value_dim) {
            auto const token = static_cast<std::int64_t>(call.first[sequence]);
            auto const* const sink = call.sinks == nullptr ? nullptr : call.sinks + head;
            store_staged(static_cast<Staged*>(call.out) + token * call.out_row +
                             static_cast<std::int64_t>(head) * call.value_dim + column + thread,
                         total * last_factor(spans[merged_spans], sink), call.element);
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
