// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/quant/decode_k.hpp>
#include <shardwise/quant/float_bits.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

// The unsigned codes of inputs 32 block .. 32 block + 31 of a row, whose number in its GGUF block is `block` modulo 8; inputs after
// the last are 0.

/// The GGUF block of a row that holds its inputs 32 block .. 32 block + 31.
[[nodiscard]] inline std::span<std::uint8_t const> gguf_block(WeightSource const& source, std::int64_t row,
                                                              std::int64_t block) {
    auto const& unit = traits(source.format);
    // Rows are whole blocks, of 32 or 256: a division for each would take most of the time of packing.
    auto const index = (row * source.inputs + block * quant_block) >> (unit.block_elements == 256 ? 8U : 5U);
    return {reinterpret_cast<std::uint8_t const*>(source.data.data()) + index * unit.block_bytes,
            static_cast<std::size_t>(unit.block_bytes)};
}

/// Inputs that a row has of a block, at most all.
[[nodiscard]] inline std::int64_t inputs_of_block(WeightSource const& source, std::int64_t block) {
    return std::min(quant_block, source.inputs - block * quant_block);
}

inline void read_int8(WeightSource const& source, std::int64_t row, std::int64_t block, std::uint8_t* codes) {
    auto const* const from =
        reinterpret_cast<std::uint8_t const*>(source.data.data()) + row * source.inputs + block * quant_block;
    auto const count = inputs_of_block(source, block);
    std::fill_n(codes, quant_block, std::uint8_t{0});
    for (std::int64_t i = 0; i < count; ++i) codes[i] = from[i] ^ 0x80U;
}

/// Two codes in a byte, the first in its low or its high half.
template <bool is_high_first>
void read_nibbles(WeightSource const& source, std::int64_t row, std::int64_t block, std::uint8_t* codes) {
    auto const* const from = reinterpret_cast<std::uint8_t const*>(source.data.data()) +
                             row * ceil_divide(source.inputs, 2) + block * quant_block / 2;
    auto const count = inputs_of_block(source, block);
    std::fill_n(codes, quant_block, std::uint8_t{0});
    for (std::int64_t i = 0; i < count; ++i) {
        bool const is_high = (i % 2 != 0) != is_high_first;
        codes[i] = static_cast<std::uint8_t>((from[i / 2] >> (is_high ? 4U : 0U)) & 15U);
    }
}

/// Q4_0, Q4_1: element i in the low and i + 16 in the high half of byte `at` + i.
template <std::size_t at>
void read_halves(WeightSource const& source, std::int64_t row, std::int64_t block, std::uint8_t* codes) {
    // A copy, which no store to the codes can change.
    std::uint8_t bytes[16];
    std::memcpy(bytes, gguf_block(source, row, block).data() + at, sizeof bytes);
    for (std::size_t i = 0; i < 16; ++i) {
        codes[i] = bytes[i] & 15U;
        codes[i + 16] = static_cast<std::uint8_t>(bytes[i] >> 4U);
    }
}

/// Q5_0, Q5_1: the same, and the fifth bits in the four bytes before.
template <std::size_t at>
void read_fifths(WeightSource const& source, std::int64_t row, std::int64_t block, std::uint8_t* codes) {
    auto const from = gguf_block(source, row, block);
    read_halves<at>(source, row, block, codes);
    for (std::size_t i = 0; i < 32; ++i) {
        codes[i] = static_cast<std::uint8_t>(codes[i] + 16 * load_bits(from, at - 4 + i / 8, i % 8, 1));
    }
}

inline void read_q8_0(WeightSource const& source, std::int64_t row, std::int64_t block, std::uint8_t* codes) {
    auto const from = gguf_block(source, row, block);
    for (std::size_t i = 0; i < 32; ++i) codes[i] = from[2 + i] ^ 0x80U;
}

/// Codes of Q4_K and Q5_K from byte `at` on.
inline void read_k_halves(std::span<std::uint8_t const> block, std::size_t at, std::size_t sub, std::uint8_t* codes) {
    for (std::size_t i = 0; i < 32; ++i) {
        codes[i] = static_cast<std::uint8_t>(load_bits(block, at + sub / 2 * 32 + i, sub % 2 * 4, 4));
    }
}

inline void read_q4_k(WeightSource const& source, std::int64_t row, std::int64_t block, std::uint8_t* codes) {
    read_k_halves(gguf_block(source, row, block), 16, static_cast<std::size_t>(block % 8), codes);
}

inline void read_q5_k(WeightSource const& source, std::int64_t row, std::int64_t block, std::uint8_t* codes) {
    auto const from = gguf_block(source, row, block);
    auto const sub = static_cast<std::size_t>(block % 8);
    read_k_halves(from, 48, sub, codes);
    for (std::size_t i = 0; i < 32; ++i) {
        codes[i] = static_cast<std::uint8_t>(codes[i] + 16 * load_bits(from, 16 + i, sub, 1));
    }
}

inline void read_q6_k(WeightSource const& source, std::int64_t row, std::int64_t block, std::uint8_t* codes) {
    auto const from = gguf_block(source, row, block);
    auto const sub = static_cast<std::size_t>(block % 8);
    for (std::size_t i = 0; i < 32; ++i) {
        auto const element = sub * 32 + i;
        auto const low = load_bits(from, element / 128 * 64 + element % 64, element / 64 % 2 * 4, 4);
        auto const place = two_bit_place(element);
        codes[i] = static_cast<std::uint8_t>(low + 16 * load_bits(from, 128 + place.byte, place.shift, 2));
    }
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
