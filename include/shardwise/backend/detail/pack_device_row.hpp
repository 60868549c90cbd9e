// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/decode_k.hpp>
#include <shardwise/quant/stored_row.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Where the parts of a row go; all bytes after its own are zeros already.
struct DeviceRow {
    std::byte* quants = nullptr;
    std::byte* planes = nullptr;
    std::byte* scales = nullptr;
    std::byte* supers = nullptr;
    /// int4: elements that share a scale here; a divisor of the checkpoint's.
    std::int64_t group = 0;
};

template <std::int64_t element_bytes>
void pack_device_bytes(StoredRow const& row, std::int64_t inputs, DeviceRow const& to) {
    if (inputs > 0) std::memcpy(to.quants, row.data, static_cast<std::size_t>(inputs * element_bytes));
}

inline void pack_device_int8(StoredRow const& row, std::int64_t inputs, DeviceRow const& to) {
    pack_device_bytes<1>(row, inputs, to);
    std::memcpy(to.scales, row.scales, 4);
}

inline void pack_device_q8_0(StoredRow const& row, std::int64_t inputs, DeviceRow const& to) {
    for (std::int64_t block = 0; block < inputs / 32; ++block) {
        std::memcpy(to.scales + 2 * block, row.data + 34 * block, 2);
        std::memcpy(to.quants + 32 * block, row.data + 34 * block + 2, 32);
    }
}

/// Stores the low four bits of 32 codes in sixteen bytes: each four bytes hold eight elements, the first four in their low halves,
/// so that a device takes four neighbours out of a word at once.
inline void store_low_bits(std::uint8_t const (&codes)[32], std::byte* to) {
    for (std::size_t word = 0; word < 4; ++word) {
        for (std::size_t i = 0; i < 4; ++i) {
            auto const low = static_cast<unsigned>(codes[8 * word + i]);
            auto const high = static_cast<unsigned>(codes[8 * word + 4 + i]);
            to[4 * word + i] = static_cast<std::byte>((low & 15U) | (high & 15U) << 4U);
        }
    }
}

/// Stores the bits of 32 codes above their low four, `bits` of each: element 4 f + i in bits [8 i + bits (f mod 8 / bits), ...) of
/// the word f / (8 / bits).
template <unsigned bits>
void store_high_bits(std::uint8_t const (&codes)[32], std::byte* to) {
    constexpr unsigned fours = 8 / bits;
    for (unsigned word = 0; word < bits; ++word) {
        std::uint32_t plane = 0;
        for (unsigned four = 0; four < fours; ++four) {
            for (unsigned i = 0; i < 4; ++i) {
                auto const code = static_cast<std::uint32_t>(codes[4 * (word * fours + four) + i]);
                plane |= (code >> 4U & ((1U << bits) - 1)) << (8 * i + bits * four);
            }
        }
        std::memcpy(to + sizeof plane * word, &plane, sizeof plane);
    }
}

/// Rows of codes of four bits; code(k) is that of element k.
template <class Code>
void pack_device_codes(std::int64_t inputs, std::byte* quants, Code const& code) {
    for (std::int64_t first = 0; first < inputs; first += 32) {
        std::uint8_t codes[32] = {};
        auto const count = std::min<std::int64_t>(32, inputs - first);
        for (std::int64_t i = 0; i < count; ++i) codes[i] = code(first + i);
        store_low_bits(codes, quants + first / 2);
    }
}

inline void pack_device_int4(StoredRow const& row, std::int64_t inputs, DeviceRow const& to) {
    pack_device_codes(inputs, to.quants, [&](std::int64_t k) { return row.nibble(k); });
    for (std::int64_t first = 0, scale = 0; first < inputs; first += to.group, ++scale) {
        std::memcpy(to.scales + 2 * scale, row.scales + first / row.group * 2, 2);
    }
}
inline void pack_device_nf4(StoredRow const& row, std::int64_t inputs, DeviceRow const& to) {
    pack_device_codes(inputs, to.quants, [&](std::int64_t k) { return row.nibble(k ^ 1); });
    if (inputs > 0) std::memcpy(to.scales, row.scales, static_cast<std::size_t>(inputs / 64 * 4));
}
inline void pack_device_mxfp4(StoredRow const& row, std::int64_t inputs, DeviceRow const& to) {
    pack_device_codes(inputs, to.quants, [&](std::int64_t k) { return row.nibble(k); });
    if (inputs > 0) std::memcpy(to.scales, row.scales, static_cast<std::size_t>(inputs / 32));
}

// GGUF's blocks: their bytes, the bits that lie in planes, the bytes of scales of 32 elements and of a block of 256, and how they
// are taken out. `sub` counts 32 elements.

/// Q4_0 and Q4_1: `head` bytes of scales, then the first sixteen elements in the low halves.
template <std::size_t head>
struct Q4Block {
    static constexpr std::int64_t elements = 32;
    static constexpr std::int64_t bytes = head + 16;
    static constexpr unsigned high_bits = 0;
    static constexpr std::int64_t scale_bytes = head;
    static constexpr std::int64_t super_bytes = 0;

    static void get_codes(std::uint8_t const* block, std::size_t, std::uint8_t (&codes)[32]) {
        for (std::size_t i = 0; i < 16; ++i) {
            codes[i] = block[head + i] & 15U;
            codes[16 + i] = static_cast<std::uint8_t>(block[head + i] >> 4U);
        }
    }
    static void get_scales(std::uint8_t const* block, std::size_t, std::byte* scales) {
        std::memcpy(scales, block, head);
    }
};

/// Q5_0 and Q5_1: the fifth bits in four bytes before the others.
template <std::size_t head>
struct Q5Block {
    static constexpr std::int64_t elements = 32;
    static constexpr std::int64_t bytes = head + 20;
    static constexpr unsigned high_bits = 1;
    static constexpr std::int64_t scale_bytes = head;
    static constexpr std::int64_t super_bytes = 0;

    static void get_codes(std::uint8_t const* block, std::size_t, std::uint8_t (&codes)[32]) {
        Q4Block<head + 4>::get_codes(block, 0, codes);
        for (std::size_t i = 0; i < 32; ++i) {
            codes[i] |= static_cast<std::uint8_t>((block[head + i / 8] >> (i % 8) & 1U) << 4U);
        }
    }
    static void get_scales(std::uint8_t const* block, std::size_t, std::byte* scales) {
        std::memcpy(scales, block, head);
    }
};

/// Q4_K: d, dmin, 12 bytes of scales and minima, 128 bytes.
struct Q4SuperBlock {
    static constexpr std::int64_t elements = 256;
    static constexpr std::int64_t bytes = 144;
    static constexpr unsigned high_bits = 0;
    static constexpr std::int64_t scale_bytes = 2;
    static constexpr std::int64_t super_bytes = 4;

    static void get_low_bits(std::uint8_t const* low, std::size_t sub, std::uint8_t (&codes)[32]) {
        auto const place = four_bit_place(32 * sub);
        for (std::size_t i = 0; i < 32; ++i) {
            codes[i] = static_cast<std::uint8_t>(low[place.byte + i] >> place.shift & 15U);
        }
    }
    static void get_codes(std::uint8_t const* block, std::size_t sub, std::uint8_t (&codes)[32]) {
        get_low_bits(block + 16, sub, codes);
    }
    static void get_scales(std::uint8_t const* block, std::size_t sub, std::byte* scales) {
        auto const unpacked = unpack_scale(std::span(block + 4, 12), sub);
        scales[0] = static_cast<std::byte>(unpacked.scale);
        scales[1] = static_cast<std::byte>(unpacked.minimum);
    }
    static void get_supers(std::uint8_t const* block, std::byte* supers) { std::memcpy(supers, block, 4); }
};

/// Q5_K: as Q4_K, 32 bytes of fifth bits before the others.
struct Q5SuperBlock : Q4SuperBlock {
    static constexpr std::int64_t bytes = 176;
    static constexpr unsigned high_bits = 1;

    static void get_codes(std::uint8_t const* block, std::size_t sub, std::uint8_t (&codes)[32]) {
        get_low_bits(block + 48, sub, codes);
        for (std::size_t i = 0; i < 32; ++i) {
            codes[i] |= static_cast<std::uint8_t>((block[16 + i] >> sub & 1U) << 4U);
        }
    }
};

/// Q6_K: 128 bytes of low and 64 of high bits, 16 signed scales, d.
struct Q6SuperBlock {
    static constexpr std::int64_t elements = 256;
    static constexpr std::int64_t bytes = 210;
    static constexpr unsigned high_bits = 2;
    static constexpr std::int64_t scale_bytes = 2;
    static constexpr std::int64_t super_bytes = 2;

    static void get_codes(std::uint8_t const* block, std::size_t sub, std::uint8_t (&codes)[32]) {
        auto const* const low = block + sub / 4 * 64 + sub % 2 * 32;
        auto const high = two_bit_place(32 * sub);
        for (std::size_t i = 0; i < 32; ++i) {
            auto const top = block[128 + high.byte + i] >> high.shift & 3U;
            codes[i] = static_cast<std::uint8_t>((low[i] >> (sub % 4 / 2 * 4) & 15U) | top << 4U);
        }
    }
    static void get_scales(std::uint8_t const* block, std::size_t sub, std::byte* scales) {
        std::memcpy(scales, block + 192 + 2 * sub, 2);
    }
    static void get_supers(std::uint8_t const* block, std::byte* supers) { std::memcpy(supers, block + 208, 2); }
};

template <class Block>
void pack_device_blocks(StoredRow const& row, std::int64_t inputs, DeviceRow const& to) {
    constexpr auto subs = Block::elements / 32;
    auto const* block = reinterpret_cast<std::uint8_t const*>(row.data);
    for (std::int64_t at = 0; at < inputs / Block::elements; ++at, block += Block::bytes) {
        for (std::int64_t sub = 0; sub < subs; ++sub) {
            auto const chunk = at * subs + sub;
            std::uint8_t codes[32];
            Block::get_codes(block, static_cast<std::size_t>(sub), codes);
            store_low_bits(codes, to.quants + 16 * chunk);
            if constexpr (Block::high_bits > 0) {
                store_high_bits<Block::high_bits>(codes, to.planes + 4 * Block::high_bits * chunk);
            }
            Block::get_scales(block, static_cast<std::size_t>(sub), to.scales + Block::scale_bytes * chunk);
        }
        if constexpr (Block::super_bytes > 0) Block::get_supers(block, to.supers + Block::super_bytes * at);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
