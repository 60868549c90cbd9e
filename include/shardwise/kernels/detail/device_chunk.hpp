// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/quant/nf4_list.hpp>
#include <shardwise/quant/weight_format_kind.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Four bytes as floats, less a number: exact. By the bits of 2^23 + byte, because conversions of integers are slow on NVIDIA's.
SHARDWISE_DEVICE inline void widen_bytes(std::uint32_t bytes, float less, float (&quants)[4]) {
    SHARDWISE_DEVICE_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
#if defined(__HIP_DEVICE_COMPILE__)
        quants[i] = static_cast<float>((bytes >> (8 * i)) & 0xFFU) - less;
#else
#if defined(__CUDA_ARCH__)
        auto const bits = __byte_perm(bytes, 0x4B000000U, 0x7440U + i);
#else
        auto const bits = ((bytes >> (8 * i)) & 0xFFU) | 0x4B000000U;
#endif
        quants[i] = float_of_bits(bits) - (0x1p23F + less);
#endif
    }
}

/// Four signed bytes of a word.
SHARDWISE_DEVICE inline void widen_signed_bytes(std::uint32_t word, float (&quants)[4]) {
    widen_bytes(word ^ 0x80808080U, 128.0F, quants);
}

/// The low four bits of the four elements `four`, as bytes: backend/detail/pack_device_row.hpp says how they lie.
[[nodiscard]] SHARDWISE_DEVICE inline std::uint32_t low_bits(Pack16 const& pack, int four) {
    return (pack.words[four / 2] >> (four % 2 == 0 ? 0U : 4U)) & 0x0F0F0F0FU;
}

/// The value of an index of a part of a weight.
template <class T>
[[nodiscard]] SHARDWISE_DEVICE T part_at(std::byte const* part, std::int64_t index) {
    return reinterpret_cast<T const*>(part)[index];
}
[[nodiscard]] SHARDWISE_DEVICE inline float low_half(std::uint32_t word) {
    return half_value(static_cast<std::uint16_t>(word & 0xFFFFU));
}
[[nodiscard]] SHARDWISE_DEVICE inline float high_half(std::uint32_t word) {
    return half_value(static_cast<std::uint16_t>(word >> 16U));
}

/// What a chunk of a format has that has neither scales nor codes.
struct PlainChunk {
    /// Elements of a chunk that share a scale; 0 where none has one of its own.
    static constexpr int scaled = 0;
    /// True where elements are scale * quant + offset.
    static constexpr bool has_offset = false;
    /// True where all of a row share a scale, which `row_scale` gives.
    static constexpr bool has_row_scale = false;
    /// Values of codes, where quants are looked up.
    static constexpr bool has_codes = false;
    /// True where a range of inputs may begin and end anywhere.
    static constexpr bool begins_anywhere = false;

    /// What lies apart from the quants.
    struct Rest {};
    SHARDWISE_DEVICE static Rest load_rest(DeviceWeightView const&, std::int64_t, std::int64_t) { return {}; }
    SHARDWISE_DEVICE static float scale(Rest const&, int) { return 1.0F; }
    SHARDWISE_DEVICE static float offset(Rest const&) { return 0.0F; }
    SHARDWISE_DEVICE static float row_scale(DeviceWeightView const&, std::int64_t) { return 1.0F; }
    SHARDWISE_DEVICE static void fill_codes(float*, int) {}
};

/// Sixteen bytes of a weight's row on a device: how many elements they hold, four neighbours of them as floats without their
/// scale (a few at a time, so that no thread holds a whole chunk of small ones), and the scale that multiplies them.
template <WeightFormat format>
struct DeviceChunk;

template <>
struct DeviceChunk<WeightFormat::f32> : PlainChunk {
    static constexpr int elements = 4;
    static constexpr bool begins_anywhere = true;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, Rest const&, int, float const*, float (&quants)[4]) {
        widen_pack(pack, quants);
    }
};

template <>
struct DeviceChunk<WeightFormat::bf16> : PlainChunk {
    static constexpr int elements = 8;
    static constexpr bool begins_anywhere = true;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, Rest const&, int four, float const*, float (&quants)[4]) {
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 2; ++i) {
            auto const word = pack.words[2 * four + i];
            quants[2 * i] = float_of_bits(word << 16U);
            quants[2 * i + 1] = float_of_bits(word & 0xFFFF0000U);
        }
    }
};

template <>
struct DeviceChunk<WeightFormat::f16> : PlainChunk {
    static constexpr int elements = 8;
    static constexpr bool begins_anywhere = true;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, Rest const&, int four, float const*, float (&quants)[4]) {
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 2; ++i) {
            quants[2 * i] = low_half(pack.words[2 * four + i]);
            quants[2 * i + 1] = high_half(pack.words[2 * four + i]);
        }
    }
};

template <>
struct DeviceChunk<WeightFormat::int8> : PlainChunk {
    static constexpr int elements = 16;
    static constexpr bool has_row_scale = true;
    static constexpr bool begins_anywhere = true;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, Rest const&, int four, float const*, float (&quants)[4]) {
        widen_signed_bytes(pack.words[four], quants);
    }
    SHARDWISE_DEVICE static float row_scale(DeviceWeightView const& weight, std::int64_t output) {
        return part_at<float>(weight.scales, output);
    }
};

template <>
struct DeviceChunk<WeightFormat::q8_0> : PlainChunk {
    static constexpr int elements = 16;
    static constexpr int scaled = 16;
    struct Rest {
        std::uint16_t scale;
    };
    SHARDWISE_DEVICE static Rest load_rest(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return {part_at<std::uint16_t>(weight.scales, output * weight.scale_row + chunk / 2)};
    }
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, Rest const&, int four, float const*, float (&quants)[4]) {
        widen_signed_bytes(pack.words[four], quants);
    }
    SHARDWISE_DEVICE static float scale(Rest const& rest, int) { return half_value(rest.scale); }
};

/// Four bits whose scale is a half.
struct HalfScaledChunk : PlainChunk {
    static constexpr int elements = 32;
    static constexpr int scaled = 32;
    struct Rest {
        std::uint16_t scale;
    };
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, Rest const&, int four, float const*, float (&quants)[4]) {
        widen_bytes(low_bits(pack, four), 8.0F, quants);
    }
    SHARDWISE_DEVICE static float scale(Rest const& rest, int) { return half_value(rest.scale); }
};

template <>
struct DeviceChunk<WeightFormat::q4_0> : HalfScaledChunk {
    SHARDWISE_DEVICE static Rest load_rest(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return {part_at<std::uint16_t>(weight.scales, output * weight.scale_row + chunk)};
    }
};

template <>
struct DeviceChunk<WeightFormat::int4> : HalfScaledChunk {
    SHARDWISE_DEVICE static Rest load_rest(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return {part_at<std::uint16_t>(weight.scales, output * weight.scale_row + (chunk >> weight.scale_shift))};
    }
};

/// Four bits that are looked up.
struct CodedChunk : PlainChunk {
    static constexpr int elements = 32;
    static constexpr int scaled = 32;
    static constexpr bool has_codes = true;
    struct Rest {
        float scale;
    };
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, Rest const&, int four, float const* codes,
                                        float (&quants)[4]) {
        auto const bytes = low_bits(pack, four);
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < 4; ++i) quants[i] = codes[(bytes >> (8 * i)) & 15U];
    }
    SHARDWISE_DEVICE static float scale(Rest const& rest, int) { return rest.scale; }
};

template <>
struct DeviceChunk<WeightFormat::nf4> : CodedChunk {
    SHARDWISE_DEVICE static Rest load_rest(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return {part_at<float>(weight.scales, output * weight.scale_row + chunk / 2)};
    }
    SHARDWISE_DEVICE static void fill_codes(float* codes, int code) {
        constexpr float values[16] = {SHARDWISE_NF4_VALUES};
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 16; ++i) {
            if (i == code) codes[i] = values[i];
        }
    }
};

template <>
struct DeviceChunk<WeightFormat::mxfp4> : CodedChunk {
    SHARDWISE_DEVICE static Rest load_rest(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        auto const power =
            static_cast<std::uint32_t>(part_at<std::uint8_t>(weight.scales, output * weight.scale_row + chunk));
        return {float_of_bits(power == 0 ? 0x00400000U : power == 255 ? 0x7FC00000U : power << 23U)};
    }
    /// A sign, two bits of exponent and one of mantissa.
    SHARDWISE_DEVICE static void fill_codes(float* codes, int code) {
        auto const bits = static_cast<std::uint32_t>(code);
        auto const magnitude = (bits & 7U) < 2 ? 0.5F * static_cast<float>(bits & 7U)
                                               : float_of_bits(((bits & 7U) << 22U) + (126U << 23U));
        codes[code] = float_of_bits(bits_of_float(magnitude) | (bits & 8U) << 28U);
    }
};

/// Bits above the low four, as bytes to be added to them.
struct OneBitPlane {
    static constexpr int bits = 1;
    std::uint32_t word;

    SHARDWISE_DEVICE static OneBitPlane load(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return {part_at<std::uint32_t>(weight.planes, output * weight.block_row + chunk)};
    }
    [[nodiscard]] SHARDWISE_DEVICE std::uint32_t high_bits(int four) const {
        return ((word >> static_cast<unsigned>(four)) & 0x01010101U) << 4U;
    }
};
struct TwoBitPlane {
    static constexpr int bits = 2;
    struct alignas(8) Words {
        std::uint32_t at[2];
    } words;

    SHARDWISE_DEVICE static TwoBitPlane load(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return {part_at<Words>(weight.planes, output * weight.block_row + chunk)};
    }
    [[nodiscard]] SHARDWISE_DEVICE std::uint32_t high_bits(int four) const {
        return ((words.at[four / 4] >> static_cast<unsigned>(2 * (four % 4))) & 0x03030303U) << 4U;
    }
};
struct NoPlane {
    static constexpr int bits = 0;
    SHARDWISE_DEVICE static NoPlane load(DeviceWeightView const&, std::int64_t, std::int64_t) { return {}; }
    [[nodiscard]] SHARDWISE_DEVICE std::uint32_t high_bits(int) const { return 0; }
};

/// 32 codes with a half, or with a half and a half that is added, in blocks of GGUF.
template <class Plane, bool is_affine>
struct BlockChunk : PlainChunk {
    static constexpr int elements = 32;
    static constexpr int scaled = 32;
    static constexpr bool has_offset = is_affine;
    struct Rest {
        std::uint32_t halves;
        Plane plane;
    };
    SHARDWISE_DEVICE static Rest load_rest(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        auto const at = output * weight.scale_row + chunk;
        auto const plane = Plane::load(weight, output, chunk);
        if constexpr (is_affine) {
            return {part_at<std::uint32_t>(weight.scales, at), plane};
        } else {
            return {part_at<std::uint16_t>(weight.scales, at), plane};
        }
    }
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, Rest const& rest, int four, float const*,
                                        float (&quants)[4]) {
        constexpr float middle = is_affine ? 0.0F : Plane::bits == 1 ? 16.0F : 8.0F;
        widen_bytes(low_bits(pack, four) | rest.plane.high_bits(four), middle, quants);
    }
    SHARDWISE_DEVICE static float scale(Rest const& rest, int) { return low_half(rest.halves); }
    SHARDWISE_DEVICE static float offset(Rest const& rest) { return high_half(rest.halves); }
};

template <>
struct DeviceChunk<WeightFormat::q4_1> : BlockChunk<NoPlane, true> {};
template <>
struct DeviceChunk<WeightFormat::q5_0> : BlockChunk<OneBitPlane, false> {};
template <>
struct DeviceChunk<WeightFormat::q5_1> : BlockChunk<OneBitPlane, true> {};

/// 32 of the 256 elements of Q4_K and Q5_K: two halves for all of them, two bytes for these.
template <class Plane>
struct SuperChunk : PlainChunk {
    static constexpr int elements = 32;
    static constexpr int scaled = 32;
    static constexpr bool has_offset = true;
    struct Rest {
        std::uint32_t halves;
        std::uint16_t bytes;
        Plane plane;
    };
    SHARDWISE_DEVICE static Rest load_rest(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return {part_at<std::uint32_t>(weight.supers, output * (weight.block_row / 8) + chunk / 8),
                part_at<std::uint16_t>(weight.scales, output * weight.block_row + chunk),
                Plane::load(weight, output, chunk)};
    }
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, Rest const& rest, int four, float const*,
                                        float (&quants)[4]) {
        widen_bytes(low_bits(pack, four) | rest.plane.high_bits(four), 0.0F, quants);
    }
    SHARDWISE_DEVICE static float scale(Rest const& rest, int) {
        return low_half(rest.halves) * static_cast<float>(static_cast<std::uint32_t>(rest.bytes) & 0xFFU);
    }
    SHARDWISE_DEVICE static float offset(Rest const& rest) {
        return -(high_half(rest.halves) * static_cast<float>(static_cast<std::uint32_t>(rest.bytes) >> 8U));
    }
};

template <>
struct DeviceChunk<WeightFormat::q4_k> : SuperChunk<NoPlane> {};
template <>
struct DeviceChunk<WeightFormat::q5_k> : SuperChunk<OneBitPlane> {};

template <>
struct DeviceChunk<WeightFormat::q6_k> : PlainChunk {
    static constexpr int elements = 32;
    static constexpr int scaled = 16;
    struct Rest {
        std::uint16_t half;
        std::uint16_t bytes;
        TwoBitPlane plane;
    };
    SHARDWISE_DEVICE static Rest load_rest(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return {part_at<std::uint16_t>(weight.supers, output * (weight.block_row / 8) + chunk / 8),
                part_at<std::uint16_t>(weight.scales, output * weight.block_row + chunk),
                TwoBitPlane::load(weight, output, chunk)};
    }
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, Rest const& rest, int four, float const*,
                                        float (&quants)[4]) {
        widen_bytes(low_bits(pack, four) | rest.plane.high_bits(four), 32.0F, quants);
    }
    /// Of each sixteen.
    SHARDWISE_DEVICE static float scale(Rest const& rest, int part) {
        auto const bits = static_cast<std::uint32_t>(rest.bytes) >> (8U * static_cast<unsigned>(part)) & 0xFFU;
        return half_value(rest.half) * (static_cast<float>(bits ^ 0x80U) - 128.0F);
    }
};

/// Four elements of a chunk, but for a scale that all of their row share: bits as the references have them. The product of a code and
/// its scale is exact where an offset is added, so that it does not matter whether it is rounded first.
template <WeightFormat format>
SHARDWISE_DEVICE void decode_elements(Pack16 const& pack, typename DeviceChunk<format>::Rest const& rest, int four,
                                      float const* codes, float (&values)[4]) {
    using Chunk = DeviceChunk<format>;
    Chunk::decode(pack, rest, four, codes, values);
    SHARDWISE_DEVICE_UNROLL
    for (int i = 0; i < 4; ++i) {
        if constexpr (Chunk::scaled != 0) values[i] *= Chunk::scale(rest, 4 * four / Chunk::scaled);
        if constexpr (Chunk::has_offset) values[i] += Chunk::offset(rest);
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
