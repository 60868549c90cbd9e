// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/packed_weight.hpp>
#include <shardwise/backend/host/product/host_format.hpp>
#include <shardwise/backend/host/product/quant_codes.hpp>
#include <shardwise/backend/host/product/quant_layout.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/quant/decode_k.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Puts the codes of one output into its lane of a block (product/quant_layout.hpp): the four of a step are a word of bytes, so
/// that shifts which leave each code in its byte move four at a time.
inline void write_codes(std::uint8_t const* codes, int bits, std::int64_t lane, std::uint8_t* block) {
    std::uint32_t steps[8];
    std::memcpy(steps, codes, sizeof steps);
    auto* const place = block + 4 * lane;
    auto const put = [place](std::int64_t vector, std::uint32_t word) {
        std::memcpy(place + 64 * vector, &word, sizeof word);
    };
    if (bits == 8) {
        for (int step = 0; step < 8; ++step) put(step, steps[step]);
        return;
    }
    constexpr std::uint32_t halves = 0x0F0F0F0FU;
    for (int pair = 0; pair < 4; ++pair) {
        put(pair, (steps[2 * pair] & halves) | (steps[2 * pair + 1] & halves) << 4U);
    }
    if (bits == 4) return;
    // What is above four bits: one bit of each of eight steps, or two of each of four.
    unsigned const width = bits == 5 ? 1 : 2;
    unsigned const together = 8 / width;
    std::uint32_t const mask = bits == 5 ? 0x01010101U : 0x03030303U;
    for (unsigned first = 0; first < 8; first += together) {
        std::uint32_t high = 0;
        for (unsigned i = 0; i < together; ++i) high |= ((steps[first + i] >> 4U) & mask) << (i * width);
        put(4 + first / together, high);
    }
}

inline void copy_half(std::span<std::uint8_t const> from, std::size_t at, std::byte* to) {
    std::memcpy(to, from.data() + at, 2);
}

/// Puts the scales that eight blocks of Q4_K or Q5_K share into the lane of their output.
inline void write_k_scales(std::span<std::uint8_t const> from, std::int64_t lane, std::byte* to) {
    copy_half(from, 0, to + 2 * lane);
    auto const minimum = static_cast<std::uint16_t>(load_u16(from, 2) ^ 0x8000U);
    std::memcpy(to + 2 * panel_outputs + 2 * lane, &minimum, 2);
    for (std::size_t block = 0; block < 8; ++block) {
        auto const scale = unpack_scale(from.subspan(4, 12), block);
        auto const minimum_of = static_cast<unsigned>(scale.minimum);
        auto const at = static_cast<std::int64_t>(block);
        to[(4 + at) * panel_outputs + lane] = std::byte(static_cast<unsigned>(scale.scale) | (minimum_of & 3U) << 6U);
        to[(12 + at / 2) * panel_outputs + lane] |= std::byte((minimum_of >> 2U) << (at % 2 * 4));
    }
}

/// Some inputs of a row.
struct InputRange {
    std::int64_t begin;
    std::int64_t end;
};

/// Puts the scales of a stretch of a row into its lane of the stretch's scales; their bytes were zero.
inline void write_scales(WeightSource const& source, std::int64_t row, InputRange const& inputs, std::int64_t lane,
                         std::byte* to) {
    auto const& unit = traits(source.format);
    if (unit.scales != ScalePlace::blocks) {
        // Scales that lie beside the codes, each for `shared` inputs.
        auto const size = unit.scale_bytes;
        auto const shared = scale_span(source.format, source.inputs, source.group);
        auto const* const from = source.scales.data() + row * ceil_divide(source.inputs, shared) * size;
        for (auto i = inputs.begin / shared; i < ceil_divide(inputs.end, shared); ++i) {
            auto* const place = to + ((i - inputs.begin / shared) * panel_outputs + lane) * size;
            std::memcpy(place, from + i * size, static_cast<std::size_t>(size));
        }
        return;
    }
    auto const first = inputs.begin / quant_block;
    auto const last = inputs.end / quant_block;
    switch (host_format(source.format).scales) {
        case ScaleForm::half:
            for (auto block = first; block < last; ++block) {
                copy_half(gguf_block(source, row, block), 0, to + ((block - first) * panel_outputs + lane) * 2);
            }
            return;
        case ScaleForm::pair:
            for (auto block = first; block < last; ++block) {
                auto* const place = to + (block - first) * panel_outputs * 4 + 2 * lane;
                copy_half(gguf_block(source, row, block), 0, place);
                copy_half(gguf_block(source, row, block), 2, place + 2 * panel_outputs);
            }
            return;
        case ScaleForm::k:
            for (auto block = first; block < last; block += 8) {
                write_k_scales(gguf_block(source, row, block), lane, to + (block - first) / 8 * k_scale_bytes);
            }
            return;
        case ScaleForm::q6_k:
            for (auto block = first; block < last; block += 8) {
                auto const from = gguf_block(source, row, block);
                auto* const place = to + (block - first) / 8 * q6_k_scale_bytes;
                copy_half(from, 208, place + 2 * lane);
                for (std::int64_t i = 0; i < 16; ++i) {
                    place[(2 + i) * panel_outputs + lane] = std::byte{from[static_cast<std::size_t>(192 + i)]};
                }
            }
            return;
        case ScaleForm::none:
        case ScaleForm::single:
        case ScaleForm::exponent: break;
    }
    SHARDWISE_ASSERT(false);  // blocks of GGUF begin with a half, or are K types
}

/// Panels of a quantised format, as product/quant_layout.hpp describes them.
inline void pack_quant_panels(WeightSource const& source, std::byte* packed, std::int64_t first, std::int64_t last) {
    auto const stride = *panel_bytes(source.format, source.inputs, source.group);
    auto const bits = quant_traits(source.format).bits;
    auto const read = host_format(source.format).read;
    auto const stretch = stretch_inputs(source.format, source.group);
    // A division for each stretch would take a good part of the time.
    auto const whole_scales =
        stretch <= source.inputs ? stretch_scale_bytes(source.format, stretch, source.group) : std::int64_t{0};
    std::uint8_t codes[quant_block];
    for (auto panel = first; panel < last; ++panel) {
        auto* const out = packed + panel * stride;
        std::fill_n(out, stride, std::byte{0});
        auto const filled = std::min(panel_outputs, source.outputs - panel * panel_outputs);
        for (std::int64_t lane = 0; lane < filled; ++lane) {
            auto const row = panel * panel_outputs + lane;
            auto* place = out;
            for (std::int64_t begin = 0, end = 0; begin < source.inputs; begin = end) {
                end = begin + std::min(stretch, source.inputs - begin);
                write_scales(source, row, {begin, end}, lane, place);
                place += end - begin == stretch ? whole_scales
                                                : stretch_scale_bytes(source.format, end - begin, source.group);
                for (auto block = begin / quant_block; block * quant_block < end; ++block) {
                    read(source, row, block, codes);
                    write_codes(codes, bits, lane, reinterpret_cast<std::uint8_t*>(place));
                    place += code_block_bytes(bits);
                }
            }
        }
    }
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
