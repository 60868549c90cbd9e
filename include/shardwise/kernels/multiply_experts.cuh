// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/device_chunk.hpp>
#include <shardwise/kernels/detail/exact_math.hpp>
#include <shardwise/kernels/detail/multiply_experts_call.hpp>
#include <shardwise/kernels/detail/staged_rows.hpp>
#include <shardwise/kernels/multiply.cuh>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Outputs of a warp: as many loads of the weight are under way at once.
constexpr int expert_outputs = 4;

/// The expert that a row is one of.
[[nodiscard]] __device__ inline int expert_of_row(std::int32_t const* first, int experts, std::int64_t row) {
    int below = 0;
    auto above = experts;
    while (above - below > 1) {
        auto const middle = (below + above) / 2;
        if (first[middle] <= row) {
            below = middle;
        } else {
            above = middle;
        }
    }
    return below;
}

/// A block makes some outputs of a row by its expert's weight, whichever that is: the host need not know. Sums have the order of
/// multiply_rows. Blocks that run at once make the same outputs of neighbouring rows, which may share an expert.
template <class Api, WeightFormat format, class Staged>
__global__ void __launch_bounds__(multiply_threads, 2) multiply_expert_rows(MultiplyExpertsCall call) {
    using Code = DeviceCode<Api>;
    using Chunk = DeviceChunk<format>;
    using Stage = MultiplyStage<Api, format>;
    constexpr int warp = Stage::warp;
    constexpr int elements = Stage::elements;
    constexpr int outputs = expert_outputs;
    constexpr int slots = multiply_staged / (warp * Stage::slot) * warp;
    constexpr int block_outputs = multiply_threads / warp * outputs;
    auto* const staged = block_memory<StagedPacks<slots * Stage::slot / 4>>().packs;
    __shared__ float codes[16];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % warp;
    if constexpr (Chunk::has_codes) {
        if (thread < 16) Chunk::fill_codes(codes, thread);
    }
    auto const tiles = (call.outputs - 1) / block_outputs + 1;
    for (auto index = static_cast<std::int64_t>(blockIdx.x); index < tiles * call.rows; index += gridDim.x) {
        auto const tile = index / call.rows;
        auto const row = index - tile * call.rows;
        auto const& expert = call.experts[expert_of_row(call.first, call.count, row)];
        auto const weight = expert.weight;
        auto const* const in =
            static_cast<Staged const*>(call.in) + (call.tokens == nullptr ? row : call.tokens[row]) * call.in_row;
        bool const has_packs = is_on_four(in);
        auto const chunks = (weight.inputs + elements - 1) / elements;
        auto const first_output = tile * block_outputs + thread / warp * outputs;
        float sums[outputs] = {};
        for (std::int64_t first = 0; first < chunks; first += slots) {
            // What was staged before has been read.
            __syncthreads();
            auto const end = first + slots < chunks ? first + slots : chunks;
            for (int i = thread; i < static_cast<int>(end - first) * (elements / 4); i += multiply_threads) {
                auto const input = first * elements + 4 * i;
                auto const left = weight.inputs - input;
                Pack16 pack{};
                if (has_packs && left >= 4) {
                    pack = load_four(in + input, call.in_element);
                } else {
                    SHARDWISE_DEVICE_UNROLL
                    for (int j = 0; j < 4; ++j) {
                        if (j < left) pack.words[j] = bits_of_float(staged_value(in[input + j], call.in_element));
                    }
                }
                store_pack(staged + i / (elements / 4) * (Stage::slot / 4) + i % (elements / 4), pack);
            }
            __syncthreads();
            for (auto chunk = first + lane; chunk < end; chunk += warp) {
                auto const left = (weight.inputs - chunk * elements) * 16 / elements;
                Pack16 packs[outputs];
                typename Chunk::Rest rests[outputs];
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < outputs; ++i) {
                    // Outputs that are not there are the last one once more.
                    auto const output = first_output + i < weight.outputs ? first_output + i : weight.outputs - 1;
                    packs[i] = Code::template load_once<Pack16>(weight.rows + output * weight.row_bytes + chunk * 16);
                    if (Chunk::begins_anywhere && left < 16) packs[i] = clear_after(packs[i], left);
                    rests[i] = Chunk::load_rest(weight, output, chunk);
                }
                multiply_chunk<format, 1, outputs>(
                    packs, rests, staged + static_cast<int>(chunk - first) * (Stage::slot / 4), 0, codes, sums);
            }
        }
        SpreadSums<Api, outputs> const spread(sums, lane);
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < spread.width; ++i) {
            auto const output = first_output + spread.first + i;
            if (!spread.is_owner || output >= weight.outputs) continue;
            auto sum = sums[i];
            // Rounded before the bias is added, as where a product and add_row follow each other.
            if constexpr (Chunk::has_row_scale) sum = product_of(sum, Chunk::row_scale(weight, output));
            if (expert.bias != nullptr) sum += expert.bias[output];
            store_product<Staged>(call.out, row * call.out_row + output, sum, call.out_element);
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
