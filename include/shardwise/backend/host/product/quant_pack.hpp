// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/quant_layout.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/quant/decode_k.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The GGUF block of a row that holds its inputs 32 block .. 32 block + 31.
[[nodiscard]] inline std::span<std::uint8_t const> gguf_block(WeightSource const& source, std::int64_t row,
                                                              std::int64_t block) {
    auto const unit = traits(source.format);
    // Rows are whole blocks, of 32 or 256: a division for each would take most of the time of packing.
    auto const index = (row * source.inputs + block * quant_block) >> (unit.block_elements == 256 ? 8U : 5U);
    return {reinterpret_cast<std::uint8_t const*>(source.data.data()) + index * unit.block_bytes,
            static_cast<std::size_t>(unit.block_bytes)};
}

/// Four-bit codes of a block of Q4_0 .. Q5_1: element i in the low and i + 16 in the high half of byte `at` + i.
inline void read_halves(std::span<std::uint8_t const> block, std::size_t at, std::uint8_t* codes) {
    for (std::size_t i = 0; i < 16; ++i) {
        codes[i] = block[at + i] & 15U;
        codes[i + 16] = static_cast<std::uint8_t>(block[at + i] >> 4U);
    }
}

/// Adds the fifth bits, one of each of four bytes.
inline void add_fifth_bits(std::span<std::uint8_t const> block, std::size_t at, std::uint8_t* codes) {
    for (std::size_t i = 0; i < 32; ++i) {
        codes[i] = static_cast<std::uint8_t>(codes[i] + 16 * load_bits(block, at + i / 8, i % 8, 1));
    }
}

/// Codes of Q4_K and Q5_K from byte `at` on.
inline void read_k_halves(std::span<std::uint8_t const> block, std::size_t at, std::size_t sub, std::uint8_t* codes) {
    for (std::size_t i = 0; i < 32; ++i) {
        codes[i] = static_cast<std::uint8_t>(load_bits(block, at + sub / 2 * 32 + i, sub % 2 * 4, 4));
    }
}

/// The unsigned codes of inputs 32 block .. 32 block + 31 of a row; inputs behind the last are 0.
inline void read_codes(WeightSource const& source, std::int64_t row, std::int64_t block, std::uint8_t* codes) {
    auto const first = block * quant_block;
    auto const count = std::min(quant_block, source.inputs - first);
    auto const* const bytes = reinterpret_cast<std::uint8_t const*>(source.data.data());
    auto const sub = static_cast<std::size_t>(block % 8);
    std::fill_n(codes, quant_block, std::uint8_t{0});
    switch (source.format) {
        case WeightFormat::int8:
            for (std::int64_t i = 0; i < count; ++i) codes[i] = bytes[row * source.inputs + first + i] ^ 0x80U;
            return;
        case WeightFormat::int4:
        case WeightFormat::mxfp4:
        case WeightFormat::nf4: {
            auto const* const from = bytes + row * ceil_divide(source.inputs, 2) + first / 2;
            bool const is_high_first = source.format == WeightFormat::nf4;
            for (std::int64_t i = 0; i < count; ++i) {
                bool const is_high = (i % 2 != 0) != is_high_first;
                codes[i] = static_cast<std::uint8_t>((from[i / 2] >> (is_high ? 4U : 0U)) & 15U);
            }
            return;
        }
        case WeightFormat::q4_0:
            return read_halves(gguf_block(source, row, block), 2, codes);
        case WeightFormat::q4_1:
            return read_halves(gguf_block(source, row, block), 4, codes);
        case WeightFormat::q5_0:
            read_halves(gguf_block(source, row, block), 6, codes);
            return add_fifth_bits(gguf_block(source, row, block), 2, codes);
        case WeightFormat::q5_1:
            read_halves(gguf_block(source, row, block), 8, codes);
            return add_fifth_bits(gguf_block(source, row, block), 4, codes);
        case WeightFormat::q8_0: {
            auto const from = gguf_block(source, row, block);
            for (std::size_t i = 0; i < 32; ++i) codes[i] = from[2 + i] ^ 0x80U;
            return;
        }
        case WeightFormat::q4_k:
            return read_k_halves(gguf_block(source, row, block), 16, sub, codes);
        case WeightFormat::q5_k: {
            auto const from = gguf_block(source, row, block);
            read_k_halves(from, 48, sub, codes);
            for (std::size_t i = 0; i < 32; ++i) {
                codes[i] = static_cast<std::uint8_t>(codes[i] + 16 * load_bits(from, 16 + i, sub, 1));
            }
            return;
        }
        case WeightFormat::q6_k: {
            auto const from = gguf_block(source, row, block);
            for (std::size_t i = 0; i < 32; ++i) {
                auto const element = sub * 32 + i;
                auto const low = load_bits(from, element / 128 * 64 + element % 64, element / 64 % 2 * 4, 4);
                auto const place = two_bit_place(element);
                codes[i] = static_cast<std::uint8_t>(low + 16 * load_bits(from, 128 + place.byte, place.shift, 2));
            }
            return;
        }
        case WeightFormat::f32: case WeightFormat::bf16: case WeightFormat::f16: break;
    }
    return;
}

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
    // Scales that lie beside the codes, each of `size` bytes for `shared` inputs.
    auto const scale_bytes = [&](std::int64_t shared, std::int64_t size) {
        auto const* const from = source.scales.data() + row * ceil_divide(source.inputs, shared) * size;
        for (auto i = inputs.begin / shared; i < ceil_divide(inputs.end, shared); ++i) {
            auto* const place = to + ((i - inputs.begin / shared) * panel_outputs + lane) * size;
            std::memcpy(place, from + i * size, static_cast<std::size_t>(size));
        }
    };
    auto const first = inputs.begin / quant_block;
    auto const last = inputs.end / quant_block;
    switch (source.format) {
        case WeightFormat::int8:
            return scale_bytes(source.inputs, 4);
        case WeightFormat::int4:
            return scale_bytes(source.group, 2);
        case WeightFormat::nf4:
            return scale_bytes(64, 4);
        case WeightFormat::mxfp4:
            return scale_bytes(quant_block, 1);
        case WeightFormat::q4_1:
        case WeightFormat::q5_1:
            for (auto block = first; block < last; ++block) {
                auto* const place = to + (block - first) * panel_outputs * 4 + 2 * lane;
                copy_half(gguf_block(source, row, block), 0, place);
                copy_half(gguf_block(source, row, block), 2, place + 2 * panel_outputs);
            }
            return;
        case WeightFormat::q4_k:
        case WeightFormat::q5_k:
            for (auto block = first; block < last; block += 8) {
                write_k_scales(gguf_block(source, row, block), lane, to + (block - first) / 8 * k_scale_bytes);
            }
            return;
        case WeightFormat::q6_k:
            for (auto block = first; block < last; block += 8) {
                auto const from = gguf_block(source, row, block);
                auto* const place = to + (block - first) / 8 * q6_k_scale_bytes;
                copy_half(from, 208, place + 2 * lane);
                for (std::int64_t i = 0; i < 16; ++i) {
                    place[(2 + i) * panel_outputs + lane] = std::byte{from[static_cast<std::size_t>(192 + i)]};
                }
            }
            return;
        case WeightFormat::f32: case WeightFormat::bf16: case WeightFormat::f16: case WeightFormat::q4_0:
        case WeightFormat::q5_0: case WeightFormat::q8_0:
            for (auto block = first; block < last; ++block) {
                copy_half(gguf_block(source, row, block), 0, to + ((block - first) * panel_outputs + lane) * 2);
            }
            return;
    }
}

/// Panels of a quantised format, as product/quant_layout.hpp describes them.
inline void pack_quant_panels(WeightSource const& source, std::byte* packed, std::int64_t first, std::int64_t last) {
    auto const stride = *panel_bytes(source.format, source.inputs, source.group);
    auto const bits = quant_traits(source.format).bits;
    auto const stretch = stretch_inputs(source.format, source.group);
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
                place += stretch_scale_bytes(source.format, end - begin, source.group);
                for (auto block = begin / quant_block; block * quant_block < end; ++block) {
                    read_codes(source, row, block, codes);
                    write_codes(codes, bits, lane, reinterpret_cast<std::uint8_t*>(place));
                    place += code_block_bytes(bits);
                }
            }
        }
    }
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
