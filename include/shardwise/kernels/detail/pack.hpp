// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/backend/device_attribute.hpp>
#include <shardwise/quant/half_bits.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Sixteen bytes, which a device reads in one instruction.
struct alignas(16) Pack16 {
    std::uint32_t words[4];
};

/// Eight bytes, which a device reads in one instruction as well.
struct alignas(8) HalfPack {
    std::uint32_t words[2];
};

[[nodiscard]] SHARDWISE_DEVICE inline bool is_on_pack(void const* at) {
    return reinterpret_cast<std::uintptr_t>(at) % sizeof(Pack16) == 0;
}

// A device traps where the address is not a multiple of the size; a host would go on unnoticed. nvcc 13 copies byte by byte what is
// a memcpy here, also where it is told of the alignment.
template <class Pack = Pack16>
[[nodiscard]] SHARDWISE_DEVICE inline Pack load_pack(void const* at) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
    return *static_cast<Pack const*>(at);
#else
    if (reinterpret_cast<std::uintptr_t>(at) % sizeof(Pack) != 0) __builtin_trap();
    Pack pack;
    __builtin_memcpy(&pack, at, sizeof pack);
    return pack;
#endif
}
template <class Pack = Pack16>
SHARDWISE_DEVICE inline void store_pack(void* at, Pack const& pack) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
    *static_cast<Pack*>(at) = pack;
#else
    if (reinterpret_cast<std::uintptr_t>(at) % sizeof(Pack) != 0) __builtin_trap();
    __builtin_memcpy(at, &pack, sizeof pack);
#endif
}

/// Sixteen bytes of a row whose address is a multiple of nothing: of them `left` are the row's own, and none after those is read.
[[nodiscard]] SHARDWISE_DEVICE inline Pack16 gather_pack(std::byte const* at, std::int64_t left) {
    Pack16 pack{};
    SHARDWISE_DEVICE_UNROLL
    for (unsigned i = 0; i < 16; ++i) {
        if (static_cast<std::int64_t>(i) < left) {
            pack.words[i / 4] |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(at[i])) << (8 * (i % 4));
        }
    }
    return pack;
}

/// A pack whose bytes from `left` on are zeros.
[[nodiscard]] SHARDWISE_DEVICE inline Pack16 clear_after(Pack16 pack, std::int64_t left) {
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < 4; ++i) {
        auto const own = left - 4 * i;
        if (own <= 0) {
            pack.words[i] = 0;
        } else if (own < 4) {
            pack.words[i] &= 0xFFFFFFFFU >> (8U * static_cast<unsigned>(4 - own));
        }
    }
    return pack;
}

/// Four floats as halves.
[[nodiscard]] SHARDWISE_DEVICE inline HalfPack half_pack(float const (&values)[4], RowElement element) {
    HalfPack pack;
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < 2; ++i) {
        pack.words[i] = static_cast<std::uint32_t>(half_element_bits(values[2 * i], element)) |
                        static_cast<std::uint32_t>(half_element_bits(values[2 * i + 1], element)) << 16U;
    }
    return pack;
}
SHARDWISE_DEVICE inline void widen_half_pack(HalfPack const& pack, RowElement element, float (&values)[4]) {
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < 2; ++i) {
        values[2 * i] = half_element_value(static_cast<std::uint16_t>(pack.words[i] & 0xFFFFU), element);
        values[2 * i + 1] = half_element_value(static_cast<std::uint16_t>(pack.words[i] >> 16U), element);
    }
}

/// Elements of sixteen bytes.
template <class T>
inline constexpr unsigned pack_elements = 16 / sizeof(T);

// A pack's elements as floats, and back: by shifts, because a copy through memory makes devices lay a stack frame.

SHARDWISE_DEVICE inline void widen_pack(Pack16 const& pack, float (&values)[4]) {
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < 4; ++i) values[i] = float_of_bits(pack.words[i]);
}
template <class T>
SHARDWISE_DEVICE void widen_pack(Pack16 const& pack, float (&values)[8]) {
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < 4; ++i) {
        T low;
        T high;
        low.bits = static_cast<std::uint16_t>(pack.words[i] & 0xFFFFU);
        high.bits = static_cast<std::uint16_t>(pack.words[i] >> 16U);
        values[2 * i] = widen(low);
        values[2 * i + 1] = widen(high);
    }
}
[[nodiscard]] SHARDWISE_DEVICE inline Pack16 narrow_pack(float const (&values)[4]) {
    Pack16 pack;
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < 4; ++i) pack.words[i] = bits_of_float(values[i]);
    return pack;
}
template <class T>
[[nodiscard]] SHARDWISE_DEVICE Pack16 narrow_pack(float const (&values)[8]) {
    Pack16 pack;
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < 4; ++i) {
        T low;
        T high;
        narrow(values[2 * i], low);
        narrow(values[2 * i + 1], high);
        pack.words[i] = static_cast<std::uint32_t>(low.bits) | static_cast<std::uint32_t>(high.bits) << 16U;
    }
    return pack;
}

/// Elements that a thread takes at once, as they lie in memory: a pack, or a single one where addresses are not multiples of 16.
template <class T, unsigned width>
struct Portion {
    static_assert(width == pack_elements<T>, "a portion is a pack or one element");
    Pack16 pack;

    SHARDWISE_DEVICE void load(T const* at) { pack = load_pack(at); }
    SHARDWISE_DEVICE void store(T* at) const { store_pack(at, pack); }
    SHARDWISE_DEVICE void get(float (&values)[width]) const {
        if constexpr (sizeof(T) == 4) {
            widen_pack(pack, values);
        } else {
            widen_pack<T>(pack, values);
        }
    }
    SHARDWISE_DEVICE void set(float const (&values)[width]) {
        if constexpr (sizeof(T) == 4) {
            pack = narrow_pack(values);
        } else {
            pack = narrow_pack<T>(values);
        }
    }
};

template <class T>
struct Portion<T, 1> {
    T element;

    SHARDWISE_DEVICE void load(T const* at) { element = *at; }
    SHARDWISE_DEVICE void store(T* at) const { *at = element; }
    SHARDWISE_DEVICE void get(float (&values)[1]) const { values[0] = widen(element); }
    SHARDWISE_DEVICE void set(float const (&values)[1]) { narrow(values[0], element); }
};

/// Floats beside a portion of halves: two packs.
template <>
struct Portion<float, 8> {
    Pack16 packs[2];

    SHARDWISE_DEVICE void load(float const* at) {
        packs[0] = load_pack(at);
        packs[1] = load_pack(at + 4);
    }
    SHARDWISE_DEVICE void get(float (&values)[8]) const {
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 8; ++i) values[i] = float_of_bits(packs[i / 4].words[i % 4]);
    }
};

/// True where rows `row` elements apart, as wide as whole packs, begin on multiples of 16 bytes.
template <class T>
[[nodiscard]] SHARDWISE_DEVICE bool has_packs(T const* data, std::int64_t rows, std::int64_t row, std::int64_t width) {
    return is_on_pack(data) && (rows <= 1 || row % pack_elements<T> == 0) && width % pack_elements<T> == 0;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
