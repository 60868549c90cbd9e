// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/multiply_sums_call.hpp>
#include <shardwise/kernels/detail/device_chunk.hpp>
#include <shardwise/kernels/detail/staged_rows.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int sums_threads = 256;
/// Outputs of a block; its warps share their products.
constexpr int sums_outputs = 16;

/// How a warp shares a product: `lanes` neighbours take its chunks by turns, so that they read 32 bytes or more of a row at once, and
/// each such group has outputs of its own, so that all of them read the same activations.
template <class Api, WeightFormat format>
struct SumsTeam {
    static constexpr int warp = DeviceCode<Api>::warp_size;
    static constexpr int wanted = DeviceChunk<format>::elements == 32 ? 2 : 4;
    static constexpr int lanes = wanted * sums_outputs < warp ? warp / sums_outputs : wanted;
    static constexpr int groups = warp / lanes;
    /// Outputs of a group.
    static constexpr int outputs = sums_outputs / groups;
    static_assert(outputs * groups == sums_outputs, "groups share a block's outputs");
};

/// Fours of activations of some rows, from where they lie: what is read by all groups of a warp is read once.
template <int rows, SumsLayout layout, class Staged>
struct RowFours {
    Staged const* from[rows];
    /// Elements that are the product's.
    std::int64_t left;
    RowElement element;

    __device__ void operator()(int row, int four, float (&values)[4]) const {
        if constexpr (layout == SumsLayout::any) {
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < 4; ++i)
                values[i] = 4 * four + i < left ? staged_value(from[row][4 * four + i], element) : 0.0F;
        } else {
            Pack16 pack{};
            if (layout == SumsLayout::chunks || 4 * four < left) pack = load_four(from[row] + 4 * four, element);
            widen_pack(pack, values);
        }
    }
};

/// A chunk that begins on four elements, of which `left` are the product's: in as many loads as it has fours.
template <int elements>
__device__ Pack16 load_fours(std::byte const* at, std::int64_t left) {
    Pack16 pack{};
    constexpr int words = 16 / elements;
    SHARDWISE_DEVICE_UNROLL
    for (int four = 0; four < elements / 4; ++four) {
        if (4 * four >= left) continue;
        if constexpr (words == 2) {
            auto const half = load_pack<HalfPack>(at + 8 * four);
            pack.words[2 * four] = half.words[0];
            pack.words[2 * four + 1] = half.words[1];
        } else {
            pack.words[four] = part_at<std::uint32_t>(at, four);
        }
    }
    return pack;
}

/// What multiply_chunk does, of activations that x(row, four, values) gives.
template <WeightFormat format, int rows, int outputs, class Fours>
__device__ void sum_chunk(Pack16 const (&packs)[outputs], typename DeviceChunk<format>::Rest const (&rests)[outputs],
                          Fours const& x, float const* codes, float (&sums)[outputs * rows]) {
    using Chunk = DeviceChunk<format>;
    constexpr int scaled = Chunk::scaled == 0 ? Chunk::elements : Chunk::scaled;
    SHARDWISE_DEVICE_UNROLL
    for (int part = 0; part < Chunk::elements / scaled; ++part) {
        float products[outputs * rows] = {};
        float totals[rows] = {};
        SHARDWISE_DEVICE_UNROLL
        for (int of_part = 0; of_part < scaled / 4; ++of_part) {
            auto const four = part * (scaled / 4) + of_part;
            float quants[outputs][4];
            SHARDWISE_DEVICE_UNROLL
            for (int output = 0; output < outputs; ++output)
                Chunk::decode(packs[output], rests[output], four, codes, quants[output]);
            SHARDWISE_DEVICE_UNROLL
            for (int row = 0; row < rows; ++row) {
                float values[4];
                x(row, four, values);
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

/// Blocks that a multiprocessor is to have at once: as many as find registers without spilling any.
template <WeightFormat format, int rows, class Staged>
inline constexpr int sums_blocks = rows == 1 ? 3
                                   : sizeof(Staged) == 4 &&
                                           (format == WeightFormat::q4_0 || format == WeightFormat::int4)
                                       ? 1
                                       : 2;

/// out[s, r, o], as the call says: a block makes sums_outputs outputs of `rows` rows. Its warps take the products by turns and leave
/// them in shared memory, where they are added up. The order of a product is that of its chunks, counted from its first input, and of
/// its additions the call's: no result depends on where in a weight a range lies, or on the rows, outputs and ranges beside it.
template <class Api, WeightFormat format, int rows, SumsLayout layout, class Staged>
__global__ void __launch_bounds__(sums_threads, (sums_blocks<format, rows, Staged>))
    multiply_sums(MultiplySumsCall call) {
    using Code = DeviceCode<Api>;
    using Chunk = DeviceChunk<format>;
    using Team = SumsTeam<Api, format>;
    constexpr int elements = Chunk::elements;
    constexpr int lanes = Team::lanes;
    constexpr int outputs = Team::outputs;
    constexpr int warps = sums_threads / Team::warp;
    constexpr int results = rows * sums_outputs;
    // Loads that are under way at once, where registers hold them.
    constexpr int depth = rows == 1 && format != WeightFormat::q6_k ? 2 : 1;
    __shared__ float made[static_cast<unsigned>(max_sum_products)][static_cast<unsigned>(results)];
    __shared__ float codes[16];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % Team::warp % lanes;
    auto const group = thread % Team::warp / lanes;
    if constexpr (Chunk::has_codes) {
        if (thread < 16) Chunk::fill_codes(codes, thread);
        __syncthreads();
    }
    auto const& weight = call.weight;
    auto const row_groups = (call.rows + rows - 1) / rows;
    auto const tiles = (weight.outputs + sums_outputs - 1) / sums_outputs * row_groups;
    for (auto tile = static_cast<std::int64_t>(blockIdx.x); tile < tiles; tile += gridDim.x) {
        // Blocks that run at once share rows of the weight.
        auto const first_row = tile % row_groups * rows;
        auto const first_output = tile / row_groups * sums_outputs;
        // Outputs and rows that are not there are the last ones once more.
        std::int64_t of[outputs];
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < outputs; ++i) {
            auto const output = first_output + group * outputs + i;
            of[i] = output < weight.outputs ? output : weight.outputs - 1;
        }
        for (int product = thread / Team::warp; product < call.products; product += warps) {
            auto const begin = call.begins[product];
            auto const size = call.begins[product + 1] - begin;
            auto const chunks = (size + elements - 1) / elements;
            float sums[outputs * rows] = {};
            for (std::int64_t first = lane; first < chunks; first += depth * lanes) {
                Pack16 packs[depth][outputs];
                typename Chunk::Rest rests[depth][outputs];
                SHARDWISE_DEVICE_UNROLL
                for (int turn = 0; turn < depth; ++turn) {
                    auto const chunk = first + turn * lanes;
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < outputs; ++i) {
                        packs[turn][i] = Pack16{};
                        rests[turn][i] = typename Chunk::Rest{};
                        if (turn > 0 && chunk >= chunks) continue;
                        auto const* const row = weight.rows + of[i] * weight.row_bytes;
                        if constexpr (Chunk::begins_anywhere) {
                            auto const* const at = row + begin * 16 / elements + chunk * 16;
                            auto const left = size - chunk * elements;
                            if constexpr (layout == SumsLayout::chunks)
                                packs[turn][i] = Code::template load_once<Pack16>(at);
                            if constexpr (layout == SumsLayout::fours) packs[turn][i] = load_fours<elements>(at, left);
                            if constexpr (layout == SumsLayout::any)
                                packs[turn][i] = gather_pack(at, left * 16 / elements);
                        } else {
                            auto const at = begin / elements + chunk;
                            packs[turn][i] = Code::template load_once<Pack16>(row + at * 16);
                            rests[turn][i] = Chunk::load_rest(weight, of[i], at);
                        }
                    }
                }
                SHARDWISE_DEVICE_UNROLL
                for (int turn = 0; turn < depth; ++turn) {
                    auto const chunk = first + turn * lanes;
                    if (turn > 0 && chunk >= chunks) continue;
                    RowFours<rows, layout, Staged> x{{}, size - chunk * elements, call.in_element};
                    auto const input = begin - call.first_input + chunk * elements;
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < rows; ++i) {
                        auto const row = first_row + i < call.rows ? first_row + i : call.rows - 1;
                        x.from[i] = static_cast<Staged const*>(call.in) + row * call.in_row + input;
                    }
                    sum_chunk<format, rows, outputs>(packs[turn], rests[turn], x, codes, sums);
                }
            }
            SHARDWISE_DEVICE_UNROLL
            for (int mask = lanes / 2; mask > 0; mask /= 2) {
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < outputs * rows; ++i) sums[i] += Code::shuffle_xor(sums[i], mask);
            }
            if (lane != 0) continue;
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < outputs; ++i) {
                SHARDWISE_DEVICE_UNROLL
                for (int row = 0; row < rows; ++row) {
                    auto sum = sums[i * rows + row];
                    if constexpr (Chunk::has_row_scale) sum *= Chunk::row_scale(weight, of[i]);
                    made[product][row * sums_outputs + group * outputs + i] = sum;
                }
            }
        }
        __syncthreads();
        for (int level = 0; level < call.levels; ++level) {
            int const first = level == 0 ? 0 : call.level_ends[level - 1];
            int const count = call.level_ends[level] - first;
            for (int i = thread; i < count * results; i += sums_threads) {
                auto const addition = call.additions[first + i / results];
                made[addition.to][i % results] += made[addition.from][i % results];
            }
            __syncthreads();
        }
        for (int i = thread; i < call.sums * results; i += sums_threads) {
            auto const sum = i / results;
            auto const row = first_row + i % results / sums_outputs;
            auto const output = first_output + i % sums_outputs;
            if (row >= call.rows || output >= weight.outputs) continue;
            call.out[sum * call.out_sum + row * call.out_row + output] = made[call.results[sum]][i % results];
        }
        // What is read of it has been read before the next ones lie there.
        __syncthreads();
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
