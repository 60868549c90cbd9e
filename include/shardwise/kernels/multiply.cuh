// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/kernels/detail/device_chunk.hpp>
#include <shardwise/kernels/detail/staged_rows.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int multiply_threads = 256;
/// Outputs of a warp: each reads its own rows of the weight, and all of them the same activations.
constexpr int multiply_outputs = 4;
/// Floats of shared memory that activations are staged in: 36 KiB, of which six blocks share a multiprocessor of an H100.
constexpr int multiply_staged = 9 * 1024;

[[nodiscard]] constexpr int power_of_two_within(int most) {
    int power = 1;
    while (2 * power <= most) power *= 2;
    return power;
}

/// How activations lie in shared memory: chunk by chunk as the weight's, four floats apart, so that a quarter of a warp reads
/// different banks.
template <class Api, WeightFormat format>
struct MultiplyStage {
    static constexpr int warp = DeviceCode<Api>::warp_size;
    static constexpr int elements = DeviceChunk<format>::elements;
    static constexpr int slot = elements == 4 ? 4 : elements + 4;
    /// Rows of activations that find room, whatever the warp.
    static constexpr int widest_rows = multiply_staged / (widest_warp<Api> * slot);
    static constexpr int max_rows = power_of_two_within(widest_rows < 8 ? widest_rows : 8);
};

template <int count>
struct StagedPacks {
    Pack16 packs[static_cast<unsigned>(count)];
};

/// What a chunk of each of some outputs adds to their products with some rows.
template <WeightFormat format, int rows, int outputs>
__device__ void multiply_chunk(Pack16 const (&packs)[outputs],
                               typename DeviceChunk<format>::Rest const (&rests)[outputs], Pack16 const* x,
                               int row_packs, float const* codes, float (&sums)[outputs * rows]) {
    using Chunk = DeviceChunk<format>;
    constexpr int scaled = Chunk::scaled == 0 ? Chunk::elements : Chunk::scaled;
    SHARDWISE_DEVICE_UNROLL
    for (int part = 0; part < Chunk::elements / scaled; ++part) {
        float products[outputs * rows] = {};
        float totals[rows] = {};
        SHARDWISE_DEVICE_UNROLL
        for (int four = part * scaled / 4; four < (part + 1) * scaled / 4; ++four) {
            float quants[outputs][4];
            SHARDWISE_DEVICE_UNROLL
            for (int output = 0; output < outputs; ++output)
                Chunk::decode(packs[output], rests[output], four, codes, quants[output]);
            SHARDWISE_DEVICE_UNROLL
            for (int row = 0; row < rows; ++row) {
                float values[4];
                widen_pack(load_pack(x + row * row_packs + four), values);
                if constexpr (Chunk::has_offset) {
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < 4; ++i) totals[row] += values[i];
                }
                SHARDWISE_DEVICE_UNROLL
                for (int output = 0; output < outputs; ++output) {
                    auto& sum = Chunk::scaled == 0 ? sums[output * rows + row] : products[output * rows + row];
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < 4; ++i) sum += quants[output][i] * values[i];
                }
            }
        }
        if constexpr (Chunk::scaled != 0) {
            SHARDWISE_DEVICE_UNROLL
            for (int output = 0; output < outputs; ++output) {
                auto const scale = Chunk::scale(rests[output], part);
                SHARDWISE_DEVICE_UNROLL
                for (int row = 0; row < rows; ++row) {
                    sums[output * rows + row] += scale * products[output * rows + row];
                    if constexpr (Chunk::has_offset)
                        sums[output * rows + row] += Chunk::offset(rests[output]) * totals[row];
                }
            }
        }
    }
}

/// out[r, o] = in[r] . weight[o]. A warp makes `outputs` outputs of `rows` rows: its lanes take the chunks of the weight's rows in
/// turn, `depth` at once, and their sums are added by a butterfly. That order depends on the inputs alone, so that a result has the
/// same bits whatever rows and outputs are computed beside it.
template <class Api, WeightFormat format, int rows, int outputs, int depth, bool is_aligned, class Staged>
__global__ void __launch_bounds__(multiply_threads, rows <= 2 ? 4 : 2) multiply_rows(MultiplyCall call) {
    using Code = DeviceCode<Api>;
    using Chunk = DeviceChunk<format>;
    using Stage = MultiplyStage<Api, format>;
    constexpr int warp = Stage::warp;
    constexpr int elements = Stage::elements;
    // Chunks of a row that are staged at once, of all lanes' turns.
    constexpr int turns = multiply_staged / (rows * warp * Stage::slot) / depth * depth;
    static_assert(turns > 0, "the activations of a turn fit into shared memory");
    constexpr int slots = turns * warp;
    constexpr int row_packs = slots * Stage::slot / 4;
    auto* const staged = block_memory<StagedPacks<rows * row_packs>>().packs;
    __shared__ float codes[16];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % warp;
    if constexpr (Chunk::has_codes) {
        if (thread < 16) Chunk::fill_codes(codes, thread);
    }
    auto const& weight = call.weight;
    auto const chunks = (weight.inputs + elements - 1) / elements;
    constexpr int block_outputs = multiply_threads / warp * outputs;
    auto const row_groups = (call.rows + rows - 1) / rows;
    auto const tiles = (weight.outputs + block_outputs - 1) / block_outputs * row_groups;
    // All threads of a block go round equally often. Blocks that run at once share rows of the weight.
    for (auto tile = static_cast<std::int64_t>(blockIdx.x); tile < tiles; tile += gridDim.x) {
        auto const first_row = tile % row_groups * rows;
        auto const first_output = tile / row_groups * block_outputs + thread / warp * outputs;
        auto const* const in = static_cast<Staged const*>(call.in);
        bool const has_packs = is_on_four(in) && (call.rows == 1 || call.in_row % 4 == 0);
        float sums[outputs * rows] = {};
        // Outputs that are not there are the last one once more.
        std::int64_t of[outputs];
        std::byte const* from[outputs];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < outputs; ++i) {
            of[i] = first_output + i < weight.outputs ? first_output + i : weight.outputs - 1;
            from[i] = weight.rows + of[i] * weight.row_bytes;
        }
        auto const load = [&](std::int64_t chunk, Pack16(&packs)[outputs], typename Chunk::Rest(&rests)[outputs]) {
            if (chunk >= chunks) {
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < outputs; ++i) {
                    packs[i] = Pack16{};
                    rests[i] = typename Chunk::Rest{};
                }
                return;
            }
            auto const left = (weight.inputs - chunk * elements) * 16 / elements;
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < outputs; ++i) {
                if constexpr (is_aligned) {
                    packs[i] = Code::template load_once<Pack16>(from[i] + chunk * 16);
                } else {
                    packs[i] = gather_pack(from[i] + chunk * 16, left);
                }
            }
            if constexpr (is_aligned && Chunk::begins_anywhere) {
                if (left < 16) {
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < outputs; ++i) packs[i] = clear_after(packs[i], left);
                }
            }
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < outputs; ++i) rests[i] = Chunk::load_rest(weight, of[i], chunk);
        };
        Pack16 packs[depth][outputs];
        typename Chunk::Rest rests[depth][outputs];
        for (std::int64_t first = 0; first < chunks; first += depth * warp) {
            auto const slot = static_cast<int>(first % slots);
            // Under way while activations are staged.
            SHARDWISE_DEVICE_UNROLL
            for (int turn = 0; turn < depth; ++turn) load(first + turn * warp + lane, packs[turn], rests[turn]);
            if (slot == 0) {
                // What was staged before has been read.
                __syncthreads();
                auto const left_inputs = weight.inputs - first * elements;
                constexpr int fours = slots * (elements / 4);
                // Not more of them than there are.
                auto const used = left_inputs < slots * elements ? static_cast<int>(left_inputs + 3) / 4 : fours;
                auto const wanted = (used + elements / 4 - 1) / (elements / 4) * (elements / 4);
                SHARDWISE_DEVICE_UNROLL
                for (int row = 0; row < rows; ++row) {
                    auto const* const values = in + (first_row + row) * call.in_row + first * elements;
                    bool const is_there = first_row + row < call.rows;
                    for (int four = thread; four < wanted; four += multiply_threads) {
                        Pack16 pack{};
                        if (is_there && has_packs && 4 * four + 4 <= left_inputs) {
                            pack = load_four(values + 4 * four, call.in_element);
                        } else if (is_there) {
                            SHARDWISE_DEVICE_UNROLL
                            for (int j = 0; j < 4; ++j) {
                                if (4 * four + j < left_inputs)
                                    pack.words[j] = bits_of_float(staged_value(values[4 * four + j], call.in_element));
                            }
                        }
                        store_pack(staged + row * row_packs + four / (elements / 4) * (Stage::slot / 4) +
                                       four % (elements / 4),
                                   pack);
                    }
                }
                __syncthreads();
            }
            SHARDWISE_DEVICE_UNROLL
            for (int turn = 0; turn < depth; ++turn) {
                // What lies there is not staged.
                if (first + turn * warp + lane >= chunks) continue;
                multiply_chunk<format, rows, outputs>(packs[turn], rests[turn],
                                                      staged + (slot + turn * warp + lane) * (Stage::slot / 4),
                                                      row_packs, codes, sums);
            }
        }
        SpreadSums<Api, outputs * rows> const spread(sums, lane);
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < spread.width; ++i) {
            auto const output = first_output + (spread.first + i) / rows;
            auto const row = first_row + (spread.first + i) % rows;
            if (!spread.is_owner || output >= weight.outputs || row >= call.rows) continue;
            auto sum = sums[i];
            if constexpr (Chunk::has_row_scale) sum *= Chunk::row_scale(weight, output);
            store_product<Staged>(call.out, row * call.out_row + output, sum, call.out_element);
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
