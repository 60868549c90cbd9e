// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/backend/detail/matrix_tile.cuh>
#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/kernels/detail/device_chunk.hpp>
#include <shardwise/kernels/detail/staged_rows.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int matrix_threads = 256;
/// Outputs of a block.
constexpr int matrix_outputs = 128;
/// Numbers of eight bits that sum up to an element of a format without its scale: codes are one, halves have eleven bits.
template <WeightFormat format>
inline constexpr int matrix_parts = format == WeightFormat::f32 || format == WeightFormat::nf4 ? 3
                                    : format == WeightFormat::f16                              ? 2
                                                                                               : 1;

/// And those that sum up to an activation.
template <class T>
inline constexpr int activation_parts = T::this_type_is_no_activation;
template <>
inline constexpr int activation_parts<float> = 3;
template <>
inline constexpr int activation_parts<Bfloat16> = 1;
template <>
inline constexpr int activation_parts<Float16> = 2;

/// Parts a float into `parts` bfloat16 whose sum it is (three suffice); one that is no number, or infinite, is the first of them.
template <int parts>
SHARDWISE_DEVICE void part_float(float value, std::uint32_t (&bits)[parts]) {
    auto rest = value;
    SHARDWISE_DEVICE_UNROLL
    for (int part = 0; part < parts; ++part) {
        auto high = bits_of_float(rest) & 0xFFFF0000U;
        if (rest != rest) high |= 0x00400000U;
        bits[part] = high;
        bool const is_finite = (high & 0x7F800000U) != 0x7F800000U;
        rest = is_finite ? rest - float_of_bits(high) : 0.0F;
    }
}

/// Four floats as parts, pairs of which are words.
template <int parts>
SHARDWISE_DEVICE void part_four(float const (&values)[4], std::uint32_t (&words)[parts][2]) {
    SHARDWISE_DEVICE_UNROLL
    for (int pair = 0; pair < 2; ++pair) {
        std::uint32_t first[parts];
        std::uint32_t second[parts];
        part_float<parts>(values[2 * pair], first);
        part_float<parts>(values[2 * pair + 1], second);
        SHARDWISE_DEVICE_UNROLL
        for (int part = 0; part < parts; ++part) words[part][pair] = first[part] >> 16U | second[part];
    }
}

/// One result by plain arithmetic: where a factor is infinite, its product with a part that is zero is none.
template <WeightFormat format, class Staged>
__device__ float multiply_plainly(MultiplyCall const& call, std::int64_t row, std::int64_t output, float const* codes) {
    using Chunk = DeviceChunk<format>;
    auto const& weight = call.weight;
    float sum = 0.0F;
    for (std::int64_t chunk = 0; chunk * Chunk::elements < weight.inputs; ++chunk) {
        auto const pack = load_pack(weight.rows + output * weight.row_bytes + chunk * 16);
        auto const rest = Chunk::load_rest(weight, output, chunk);
        auto const* const in = static_cast<Staged const*>(call.in) + row * call.in_row + chunk * Chunk::elements;
        auto const left = weight.inputs - chunk * Chunk::elements;
        SHARDWISE_DEVICE_UNROLL
        for (int four = 0; four < Chunk::elements / 4; ++four) {
            float values[4];
            decode_elements<format>(pack, rest, four, codes, values);
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < 4; ++i) {
                if (4 * four + i < left) sum += values[i] * staged_value(in[4 * four + i], call.in_element);
            }
        }
    }
    return sum;
}

/// out[r, o] = in[r] . weight[o] for many rows: a block makes matrix_outputs outputs of `rows` rows. Activations are parted into
/// activation_parts<T> bfloat16, which loses nothing, and codes are bfloat16 already; their products are summed in float over 32
/// inputs, and those sums are scaled and added. The order does not depend on other rows, but it is not that of multiply_rows.
template <class Api, WeightFormat format, int rows, class T>
__global__ void __launch_bounds__(matrix_threads, 2) multiply_tiles(MultiplyCall call) {
    using Code = DeviceCode<Api>;
    using Chunk = DeviceChunk<format>;
    using Tile = MatrixTile<Api>;
    constexpr int warp = Code::warp_size;
    constexpr int warps = matrix_threads / warp;
    constexpr int elements = Chunk::elements;
    constexpr int left_parts = matrix_parts<format>;
    constexpr int right_parts = activation_parts<T>;
    using Staged = typename StagedAs<T>::type;
    // A warp's share: tiles of 16 outputs by Tile::columns rows.
    constexpr int row_warps = rows >= 64 ? 2 : 1;
    constexpr int output_warps = warps / row_warps;
    constexpr int output_tiles = matrix_outputs / 16 / output_warps > 0 ? matrix_outputs / 16 / output_warps : 1;
    constexpr int row_tiles = rows / Tile::columns / row_warps;
    static_assert(output_tiles * output_warps * 16 % matrix_outputs == 0, "warps share the outputs");
    // Sixteen inputs of an output are a thread's to decode, in as many packs.
    constexpr int packs_of_thread = elements >= 16 ? 1 : 16 / elements;
    constexpr int scale_groups = Chunk::scaled == 16 && elements == 32 ? 2 : 1;
    // Two, so that one is filled while the other is multiplied, where they find room.
    constexpr int buffers = left_parts == 1 ? 2 : 1;
    struct Buffer {
        Pack16 left[left_parts * matrix_outputs * matrix_inputs / 8];
        Pack16 right[right_parts * rows * matrix_inputs / 8];
        float scales[scale_groups * matrix_outputs];
        float offsets[matrix_outputs];
        float totals[rows];
    };
    __shared__ Buffer staged[buffers];
    __shared__ float codes[16];
    auto const thread = static_cast<int>(threadIdx.x);
    auto const lane = thread % warp;
    auto const own = thread / warp;
    if constexpr (Chunk::has_codes) {
        if (thread < 16) Chunk::fill_codes(codes, thread);
    }
    auto const& weight = call.weight;
    auto const chunks = (weight.inputs + elements - 1) / elements;
    auto const steps = (weight.inputs + matrix_inputs - 1) / matrix_inputs;
    auto const row_blocks = (call.rows + rows - 1) / rows;
    auto const tiles = (weight.outputs + matrix_outputs - 1) / matrix_outputs * row_blocks;
    bool const has_packs = is_on_four(static_cast<Staged const*>(call.in)) && (call.rows == 1 || call.in_row % 4 == 0);
    // A thread brings half of an output's inputs of a step, and a quarter of a row's.
    auto const half = thread % 2;
    auto const quarter = thread % 4;
    for (auto tile = static_cast<std::int64_t>(blockIdx.x); tile < tiles; tile += gridDim.x) {
        // Blocks that run at once share rows of the weight.
        auto const first_row = tile % row_blocks * rows;
        auto const first_output = tile / row_blocks * matrix_outputs;
        auto const output = first_output + thread / 2;
        auto const row = first_row + thread / 4;
        Pack16 packs[packs_of_thread];
        typename Chunk::Rest rest{};
        Pack16 inputs[2];
        auto const load = [&](std::int64_t step) {
            auto const first_chunk = step * matrix_inputs / elements + (elements == 32 ? 0 : half * 16 / elements);
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < packs_of_thread; ++i) {
                packs[i] = Pack16{};
                if (output >= weight.outputs || first_chunk + i >= chunks) continue;
                packs[i] = load_pack(weight.rows + output * weight.row_bytes + (first_chunk + i) * 16);
                if (i == 0) rest = Chunk::load_rest(weight, output, first_chunk);
            }
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < 2; ++i) {
                inputs[i] = Pack16{};
                if (thread / 4 >= rows || row >= call.rows) continue;
                auto const input = step * matrix_inputs + 8 * quarter + 4 * i;
                auto const left = weight.inputs - input;
                auto const* const from = static_cast<Staged const*>(call.in) + row * call.in_row + input;
                if (has_packs && left >= 4) {
                    inputs[i] = load_four(from, row_element<T>);
                } else {
                    SHARDWISE_DEVICE_UNROLL
                    for (int j = 0; j < 4; ++j) {
                        if (j < left) inputs[i].words[j] = bits_of_float(staged_value(from[j], row_element<T>));
                    }
                }
            }
        };
        auto const stage = [&](Buffer& to) {
            auto* const left_rows = reinterpret_cast<std::uint16_t*>(to.left);
            auto* const right_rows = reinterpret_cast<std::uint16_t*>(to.right);
            SHARDWISE_DEVICE_UNROLL
            for (int eight = 0; eight < 2; ++eight) {
                Pack16 made[left_parts];
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < 2; ++i) {
                    // The four of a thread's sixteen elements.
                    auto const four = 2 * eight + i;
                    float quants[4];
                    if constexpr (elements == 32) {
                        // Halves of a pack by turns: an index that is known to the compiler.
                        float others[4];
                        Chunk::decode(packs[0], rest, four, codes, quants);
                        Chunk::decode(packs[0], rest, four + 4, codes, others);
                        SHARDWISE_DEVICE_UNROLL
                        for (int j = 0; j < 4; ++j) quants[j] = half == 0 ? quants[j] : others[j];
                    } else {
                        Chunk::decode(packs[four * 4 / elements % packs_of_thread], rest, four % (elements / 4), codes,
                                      quants);
                    }
                    std::uint32_t words[left_parts][2];
                    part_four<left_parts>(quants, words);
                    SHARDWISE_DEVICE_UNROLL
                    for (int part = 0; part < left_parts; ++part) {
                        made[part].words[2 * i] = words[part][0];
                        made[part].words[2 * i + 1] = words[part][1];
                    }
                }
                SHARDWISE_DEVICE_UNROLL
                for (int part = 0; part < left_parts; ++part) {
                    store_pack(
                        left_rows + part * matrix_outputs * matrix_inputs + matrix_place(thread / 2, 2 * half + eight),
                        made[part]);
                }
            }
            if constexpr (scale_groups == 2) {
                to.scales[half * matrix_outputs + thread / 2] = Chunk::scale(rest, half);
            } else if constexpr (Chunk::scaled != 0) {
                if (half == 0) to.scales[thread / 2] = Chunk::scale(rest, 0);
            }
            if constexpr (Chunk::has_offset) {
                if (half == 0) to.offsets[thread / 2] = Chunk::offset(rest);
            }
            float total = 0.0F;
            Pack16 made[right_parts];
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < 2; ++i) {
                float values[4];
                widen_pack(inputs[i], values);
                SHARDWISE_DEVICE_UNROLL
                for (int j = 0; j < 4; ++j) total += values[j];
                std::uint32_t words[right_parts][2];
                part_four<right_parts>(values, words);
                SHARDWISE_DEVICE_UNROLL
                for (int part = 0; part < right_parts; ++part) {
                    made[part].words[2 * i] = words[part][0];
                    made[part].words[2 * i + 1] = words[part][1];
                }
            }
            if constexpr (Chunk::has_offset) {
                total += Code::shuffle_xor(total, 1);
                total += Code::shuffle_xor(total, 2);
            }
            if (thread / 4 < rows) {
                SHARDWISE_DEVICE_UNROLL
                for (int part = 0; part < right_parts; ++part)
                    store_pack(right_rows + part * rows * matrix_inputs + matrix_place(thread / 4, quarter),
                               made[part]);
                if (Chunk::has_offset && quarter == 0) to.totals[thread / 4] = total;
            }
        };
        float sums[output_tiles][row_tiles][Tile::values] = {};
        auto const first_tile = own / row_warps * output_tiles * 16;
        auto const first_column = own % row_warps * row_tiles * Tile::columns;
        auto const multiply = [&](Buffer const& from) {
            if (first_tile >= matrix_outputs) return;
            auto const* const left_rows = reinterpret_cast<std::uint16_t const*>(from.left);
            auto const* const right_rows = reinterpret_cast<std::uint16_t const*>(from.right);
            typename Tile::Left left[output_tiles][left_parts][2];
            SHARDWISE_DEVICE_UNROLL
            for (int i = 0; i < output_tiles; ++i) {
                SHARDWISE_DEVICE_UNROLL
                for (int part = 0; part < left_parts; ++part) {
                    auto const first = part * matrix_outputs + first_tile + 16 * i;
                    SHARDWISE_DEVICE_UNROLL
                    for (int k = 0; k < 2; ++k)
                        left[i][part][k] = Tile::load_left(left_rows + first * matrix_inputs, k, lane);
                }
            }
            SHARDWISE_DEVICE_UNROLL
            for (int j = 0; j < row_tiles; ++j) {
                typename Tile::Right right[right_parts][2];
                SHARDWISE_DEVICE_UNROLL
                for (int part = 0; part < right_parts; ++part) {
                    auto const first = part * rows + first_column + Tile::columns * j;
                    Tile::load_right(right_rows + first * matrix_inputs, lane, right[part]);
                }
                SHARDWISE_DEVICE_UNROLL
                for (int group = 0; group < scale_groups; ++group) {
                    // Sums that do not wait for each other take turns.
                    float products[output_tiles][Tile::values] = {};
                    // The smallest first.
                    SHARDWISE_DEVICE_UNROLL
                    for (int part = left_parts - 1; part >= 0; --part) {
                        SHARDWISE_DEVICE_UNROLL
                        for (int other = right_parts - 1; other >= 0; --other) {
                            SHARDWISE_DEVICE_UNROLL
                            for (int k = group * 2 / scale_groups; k < (group + 1) * 2 / scale_groups; ++k) {
                                SHARDWISE_DEVICE_UNROLL
                                for (int i = 0; i < output_tiles; ++i)
                                    Tile::multiply(left[i][part][k], right[other][k], lane, products[i]);
                            }
                        }
                    }
                    SHARDWISE_DEVICE_UNROLL
                    for (int i = 0; i < output_tiles; ++i) {
                        SHARDWISE_DEVICE_UNROLL
                        for (int v = 0; v < Tile::values; ++v) {
                            auto const at = first_tile + 16 * i + Tile::row(lane, v);
                            if constexpr (Chunk::scaled == 0) {
                                sums[i][j][v] += products[i][v];
                            } else {
                                sums[i][j][v] += from.scales[group * matrix_outputs + at] * products[i][v];
                            }
                            if constexpr (Chunk::has_offset) {
                                sums[i][j][v] += from.offsets[at] *
                                                 from.totals[first_column + Tile::columns * j + Tile::column(lane, v)];
                            }
                        }
                    }
                }
            }
        };
        load(0);
        // What was staged before has been read.
        __syncthreads();
        stage(staged[0]);
        load(1);
        __syncthreads();
        for (std::int64_t step = 0; step < steps; ++step) {
            if constexpr (buffers == 2) {
                if (step + 1 < steps) stage(staged[(step + 1) % 2]);
                load(step + 2);
                multiply(staged[step % 2]);
                __syncthreads();
            } else {
                multiply(staged[0]);
                __syncthreads();
                if (step + 1 < steps) stage(staged[0]);
                load(step + 2);
                __syncthreads();
            }
        }
        if (first_tile >= matrix_outputs) continue;
        // Of the sums of a lane, each with a number.
        auto const output_of = [&](int number) {
            return first_output + first_tile + number / (row_tiles * Tile::values) * 16 +
                   Tile::row(lane, number % Tile::values);
        };
        auto const row_of = [&](int number) {
            return first_row + first_column + number / Tile::values % row_tiles * Tile::columns +
                   Tile::column(lane, number % Tile::values);
        };
        bool is_number = true;
        SHARDWISE_DEVICE_UNROLL
        for (int number = 0; number < output_tiles * row_tiles * Tile::values; ++number) {
            auto const to = output_of(number);
            auto const of = row_of(number);
            if (to >= weight.outputs || of >= call.rows) continue;
            auto sum =
                sums[number / (row_tiles * Tile::values)][number / Tile::values % row_tiles][number % Tile::values];
            is_number = is_number && sum == sum;
            if constexpr (Chunk::has_row_scale) sum *= Chunk::row_scale(weight, to);
            store_product<Staged>(call.out, of * call.out_row + to, sum, call.out_element);
        }
        for (int number = 0; !is_number && number < output_tiles * row_tiles * Tile::values; ++number) {
            auto const to = output_of(number);
            auto const of = row_of(number);
            if (to >= weight.outputs || of >= call.rows) continue;
            auto const place = of * call.out_row + to;
            if constexpr (sizeof(Staged) == 4) {
                auto& out = static_cast<float*>(call.out)[place];
                if (out == out) continue;
                out = multiply_plainly<format, Staged>(call, of, to, codes);
                if constexpr (Chunk::has_row_scale) out *= Chunk::row_scale(weight, to);
            } else {
                auto const made = load_element(call.out, place, call.out_element);
                if (made == made) continue;
                auto sum = multiply_plainly<format, Staged>(call, of, to, codes);
                if constexpr (Chunk::has_row_scale) sum *= Chunk::row_scale(weight, to);
                store_element(call.out, place, sum, call.out_element);
            }
        }
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
