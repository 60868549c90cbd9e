// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_calls.hpp>
#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Sixteen bytes, which a device reads in one instruction.
struct alignas(16) Pack16 {
    std::uint32_t words[4];
};

// A device traps where the address is not a multiple of 16; a host would go on unnoticed. nvcc 13 copies byte by byte what is
// a memcpy here, also where it is told of the alignment.
[[nodiscard]] SHARDWISE_DEVICE inline Pack16 load_pack(void const* at) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
    return *static_cast<Pack16 const*>(at);
#else
    assert(reinterpret_cast<std::uintptr_t>(at) % 16 == 0);
    Pack16 pack;
    memcpy(&pack, at, sizeof pack);
    return pack;
#endif
}
SHARDWISE_DEVICE inline void store_pack(void* at, Pack16 const& pack) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
    *static_cast<Pack16*>(at) = pack;
#else
    assert(reinterpret_cast<std::uintptr_t>(at) % 16 == 0);
    memcpy(at, &pack, sizeof pack);
#endif
}

/// Sixteen bytes of a weight's row, of which `left` are its own (more may be). Ranges of inputs begin anywhere: words that do not
/// lie on 16 bytes are read apart, and none that begins behind the row.
[[nodiscard]] SHARDWISE_DEVICE inline Pack16 load_row_pack(std::byte const* at, std::int64_t left) {
    auto const address = reinterpret_cast<std::uintptr_t>(at);
    if (address % 16 == 0) return load_pack(at);
    Pack16 pack{};
    if (address % 4 == 0) {
        auto const* const words = reinterpret_cast<std::uint32_t const*>(at);
        for (int i = 0; i < 4; ++i) pack.words[i] = 4 * i < left ? words[i] : 0U;
    } else {
        for (unsigned i = 0; i < 16; ++i) {
            auto const byte = static_cast<std::int64_t>(i) < left ? static_cast<std::uint32_t>(at[i]) : 0U;
            pack.words[i / 4] |= byte << (8 * (i % 4));
        }
    }
    return pack;
}

/// Sixteen bytes of a weight's row on a device: how many elements they hold, their quants as floats, and the scale that
/// multiplies them.
template <WeightFormat format>
struct DeviceChunk;

template <>
struct DeviceChunk<WeightFormat::f32> {
    static constexpr int elements = 4;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, float* quants) {
        for (int i = 0; i < 4; ++i) quants[i] = float_of_bits(pack.words[i]);
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const&, std::int64_t, std::int64_t) { return 1.0F; }
};

template <>
struct DeviceChunk<WeightFormat::bf16> {
    static constexpr int elements = 8;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, float* quants) {
        for (int i = 0; i < 4; ++i) {
            quants[2 * i] = float_of_bits(pack.words[i] << 16U);
            quants[2 * i + 1] = float_of_bits(pack.words[i] & 0xFFFF0000U);
        }
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const&, std::int64_t, std::int64_t) { return 1.0F; }
};

template <>
struct DeviceChunk<WeightFormat::f16> {
    static constexpr int elements = 8;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, float* quants) {
        for (int i = 0; i < 4; ++i) {
            quants[2 * i] = half_value(static_cast<std::uint16_t>(pack.words[i] & 0xFFFFU));
            quants[2 * i + 1] = half_value(static_cast<std::uint16_t>(pack.words[i] >> 16U));
        }
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const&, std::int64_t, std::int64_t) { return 1.0F; }
};

/// Four signed bytes of a word.
SHARDWISE_DEVICE inline void decode_bytes(std::uint32_t word, float* quants) {
    for (unsigned i = 0; i < 4; ++i) {
        quants[i] = static_cast<float>(static_cast<std::int8_t>(static_cast<std::uint8_t>((word >> (8 * i)) & 0xFFU)));
    }
}

/// The half at an index of a weight's scales.
[[nodiscard]] SHARDWISE_DEVICE inline float half_scale(DeviceWeightView const& weight, std::int64_t index) {
    return half_value(reinterpret_cast<Float16 const*>(weight.scales)[index].bits);
}

template <>
struct DeviceChunk<WeightFormat::int8> {
    static constexpr int elements = 16;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, float* quants) {
        for (int i = 0; i < 4; ++i) decode_bytes(pack.words[i], quants + 4 * i);
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const& weight, std::int64_t output, std::int64_t) {
        return reinterpret_cast<float const*>(weight.scales)[output];
    }
};

template <>
struct DeviceChunk<WeightFormat::q8_0> {
    static constexpr int elements = 16;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, float* quants) {
        for (int i = 0; i < 4; ++i) decode_bytes(pack.words[i], quants + 4 * i);
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return half_scale(weight, output * weight.scale_row + chunk / 2);
    }
};

template <>
struct DeviceChunk<WeightFormat::q4_0> {
    static constexpr int elements = 32;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, float* quants) {
        for (unsigned i = 0; i < 16; ++i) {
            auto const byte = (pack.words[i / 4] >> (8 * (i % 4))) & 0xFFU;
            quants[i] = static_cast<float>(static_cast<int>(byte & 15U) - 8);
            quants[i + 16] = static_cast<float>(static_cast<int>(byte >> 4U) - 8);
        }
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return half_scale(weight, output * weight.scale_row + chunk);
    }
};

/// What one chunk of a weight's row adds to its products with `rows` rows of activations.
template <WeightFormat format, std::size_t rows>
SHARDWISE_DEVICE inline void multiply_chunk(MultiplyCall const& call, std::int64_t output, std::int64_t chunk,
                                            std::int64_t first_row, float (&sums)[rows]) {
    using Chunk = DeviceChunk<format>;
    float quants[Chunk::elements];
    auto const first = chunk * Chunk::elements;
    auto const left = call.weight.inputs - first;
    // An element's bytes, or those of a pair of elements that share one.
    auto const left_bytes = left * 16 / Chunk::elements;
    Chunk::decode(load_row_pack(call.weight.rows + output * call.weight.row_bytes + chunk * 16, left_bytes), quants);
    auto const scale = Chunk::scale(call.weight, output, chunk);
    for (std::size_t row = 0; row < rows; ++row) {
        auto const in_row = first_row + static_cast<std::int64_t>(row);
        if (in_row >= call.rows) break;
        auto const* const in = call.in + in_row * call.in_row + first;
        float sum = 0.0F;
        if (left < Chunk::elements) {
            // Constant bounds: quants that are indexed at run time would lie in memory.
            for (int i = 0; i < Chunk::elements; ++i) sum += i < left ? quants[i] * in[i] : 0.0F;
        } else if (reinterpret_cast<std::uintptr_t>(in) % 16 == 0) {
            for (int i = 0; i < Chunk::elements; i += 4) {
                auto const four = load_pack(in + i);
                for (int j = 0; j < 4; ++j) sum += quants[i + j] * float_of_bits(four.words[j]);
            }
        } else {
            for (int i = 0; i < Chunk::elements; ++i) sum += quants[i] * in[i];
        }
        sums[row] += scale * sum;
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
