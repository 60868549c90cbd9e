// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/quant_layout.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/unfused.hpp>
#include <shardwise/quant/decode_microscaling.hpp>
#include <shardwise/quant/float_bits.hpp>
#include <shardwise/quant/nf4_values.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_UNFUSED_BEGIN

namespace detail::portable {

/// Rows of activations that one pass over a panel multiplies.
inline constexpr std::int64_t quant_rows = 32;

/// Some bits of every lane of a vector of codes. Lanes are read as numbers, lowest byte first, as all our hosts have them.
inline void take_bits(std::byte const* vector, unsigned shift, std::uint32_t mask, std::int32_t* bits) {
    std::uint32_t lanes[panel_outputs];
    std::memcpy(lanes, vector, sizeof lanes);
    for (std::int64_t lane = 0; lane < panel_outputs; ++lane) {
        bits[lane] = static_cast<std::int32_t>(lanes[lane] >> shift & mask);
    }
}

/// The codes of all outputs for one input of a block.
inline void read_codes_of(std::byte const* block, int bits, std::int64_t input, std::int32_t* codes) {
    auto const step = input / 4;
    auto const byte = static_cast<unsigned>(input % 4 * 8);
    if (bits == 8) return take_bits(block + step * 64, byte, 255, codes);
    take_bits(block + step / 2 * 64, byte + static_cast<unsigned>(step % 2 * 4), 15, codes);
    if (bits == 4) return;
    std::int32_t high[panel_outputs];
    if (bits == 5) {
        take_bits(block + 256, byte + static_cast<unsigned>(step), 1, high);
    } else {
        take_bits(block + 256 + step / 4 * 64, byte + static_cast<unsigned>(step % 4 * 2), 3, high);
    }
    for (std::int64_t lane = 0; lane < panel_outputs; ++lane) codes[lane] += high[lane] * 16;
}

[[nodiscard]] inline float half_at(std::byte const* bytes) {
    std::uint16_t half;
    std::memcpy(&half, bytes, sizeof half);
    return from_f16(half);
}
[[nodiscard]] inline float float_at(std::byte const* bytes) {
    float value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

/// What an input's code is multiplied by and what is then added.
struct ScaleAndShift {
    float scale = 0;
    float shift = 0;
};

/// The scale of one input of an output, from the scales of its stretch, in which inputs are counted; `index` counts the scales
/// before it, where an input has one of its own place.
[[nodiscard]] inline ScaleAndShift scale_at(PackedView const& weight, std::byte const* scales, std::int64_t input,
                                            std::int64_t index, std::int64_t lane) {
    auto const block = input / quant_block;
    auto const* const own = scales + (index * panel_outputs + lane) * quant_layout(weight.format).scale_bytes;
    switch (host_format(weight.format).scales) {
        case ScaleForm::single:
            return {float_at(own)};
        case ScaleForm::half:
            return {half_at(own)};
        case ScaleForm::exponent:
            return {from_e8m0(std::to_integer<std::uint8_t>(*own))};
        case ScaleForm::pair: {
            auto const* const place = scales + index * panel_outputs * 4 + 2 * lane;
            return {half_at(place), half_at(place + 2 * panel_outputs)};
        }
        case ScaleForm::k: {
            auto const* const place = scales + index * k_scale_bytes;
            auto const byte = [&](std::int64_t at) {
                return std::to_integer<unsigned>(place[at * panel_outputs + lane]);
            };
            auto const low = byte(4 + block % 8);
            auto const minimum = low >> 6U | (byte(12 + block % 8 / 2) >> (block % 2 * 4) & 15U) << 2U;
            return {half_at(place + 2 * lane) * static_cast<float>(low & 63U),
                    half_at(place + 2 * panel_outputs + 2 * lane) * static_cast<float>(minimum)};
        }
        case ScaleForm::q6_k: {
            auto const* const place = scales + index * q6_k_scale_bytes;
            auto const factor = std::to_integer<std::uint8_t>(place[(2 + input % 256 / 16) * panel_outputs + lane]);
            return {half_at(place + 2 * lane) * static_cast<float>(static_cast<std::int8_t>(factor))};
        }
        case ScaleForm::none:
            break;
    }
    SHARDWISE_ASSERT(false);  // elements without scales have products of their own
    return {};
}

/// The values of inputs [first, first + count) of a panel, all of one block.
///
/// Shapes  values [count, panel_outputs]
inline void decode_panel_block(PackedView const& weight, std::byte const* panel, std::int64_t first, std::int64_t count,
                               float (*values)[panel_outputs]) {
    auto const format = weight.format;
    auto const kind = quant_traits(format);
    auto const stretch = stretch_inputs(format, weight.group);
    auto const begin = first / stretch * stretch;
    auto const inputs = std::min(stretch, weight.inputs - begin);
    auto const* const scales =
        panel + (begin == 0 ? 0 : first / stretch * stretch_bytes(format, stretch, weight.group));
    auto const* const codes = scales + stretch_scale_bytes(format, inputs, weight.group) +
                              (first - begin) / quant_block * code_block_bytes(kind.bits);
    // Inputs that share a scale; int4's groups have any length.
    auto const shared = scale_inputs(format, weight.group);
    auto const run = quant_layout(format).scale_inputs == 0 ? std::int64_t{1} : quant_block / kind.parts;
    float scale[panel_outputs];
    float shift[panel_outputs];
    std::int32_t code[panel_outputs];
    for (std::int64_t i = 0; i < count; ++i) {
        if (i == 0 || (first + i) % run == 0) {
            auto const index = (first - begin + i) / shared;
            for (std::int64_t lane = 0; lane < panel_outputs; ++lane) {
                auto const found = scale_at(weight, scales, first - begin + i, index, lane);
                scale[lane] = found.scale;
                shift[lane] = found.shift;
            }
        }
        read_codes_of(codes, kind.bits, first % quant_block + i, code);
        switch (host_format(format).value) {
            case CodeValue::nf4:
                for (std::int64_t lane = 0; lane < panel_outputs; ++lane)
                    values[i][lane] = scale[lane] * nf4_values[static_cast<std::size_t>(code[lane])];
                break;
            case CodeValue::e2m1:
                for (std::int64_t lane = 0; lane < panel_outputs; ++lane)
                    values[i][lane] = scale[lane] * from_e2m1(static_cast<std::uint8_t>(code[lane]));
                break;
            case CodeValue::itself:
                for (std::int64_t lane = 0; lane < panel_outputs; ++lane)
                    values[i][lane] = scale[lane] * static_cast<float>(code[lane] - kind.offset) + shift[lane];
                break;
        }
    }
}

/// Four floats that compilers keep in one register wherever there are such.
using Quad [[gnu::vector_size(16)]] = float;
inline constexpr std::int64_t quads = panel_outputs / 4;

/// sums += activations * values, one input after another; every row takes this one function, whatever their number.
inline void add_products(float const* in, std::int64_t count, float const (*values)[panel_outputs], float* sums) {
    Quad local[quads];
    std::memcpy(local, sums, sizeof local);
    for (std::int64_t k = 0; k < count; ++k) {
        Quad all[quads];
        std::memcpy(all, values[k], sizeof all);
        for (std::int64_t i = 0; i < quads; ++i) local[i] += in[k] * all[i];
    }
    std::memcpy(sums, local, sizeof local);
}

/// Multiplies by a quantised weight: a block is decoded as the reference decodes it and serves all rows.
///
/// Order  one input after another, in fp32
inline void multiply_quantised(ProductTask const& task) {
    auto const& weight = task.weight;
    float sums[quant_rows][panel_outputs];
    float values[quant_block][panel_outputs];
    for (auto panel = task.first_panel; panel < task.last_panel; ++panel) {
        auto const outputs = std::min(panel_outputs, weight.outputs - panel * panel_outputs);
        for (std::int64_t first_row = 0; first_row < task.rows; first_row += quant_rows) {
            auto const rows = std::min(quant_rows, task.rows - first_row);
            std::fill_n(&sums[0][0], quant_rows * panel_outputs, 0.0F);
            for (auto first = task.inputs.begin; first < task.inputs.end;) {
                auto const count = std::min(quant_block - first % quant_block, task.inputs.end - first);
                decode_panel_block(weight, weight.data + panel * weight.stride, first, count, values);
                auto const* const in = task.in + first_row * task.in_stride + (first - task.inputs.begin);
                for (std::int64_t row = 0; row < rows; ++row)
                    add_products(in + row * task.in_stride, count, values, sums[row]);
                first += count;
            }
            for (std::int64_t row = 0; row < rows; ++row) {
                std::copy_n(sums[row], outputs, task.out + (first_row + row) * task.out_stride + panel * panel_outputs);
            }
        }
    }
}

}  // namespace detail::portable

SHARDWISE_UNFUSED_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
