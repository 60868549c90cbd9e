// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/detail/multiply_call.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/quant/weight_format_kind.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Sixteen bytes of a weight's row, of which `left` are its own (more may be). Ranges of inputs begin anywhere: words that do not
/// lie on 16 bytes are read apart, and none that begins after the row.
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

/// Sixteen bytes of a weight's row on a device: how many elements they hold, four neighbours of them as floats without their
/// scale (a few at a time, so that no thread holds a whole chunk of small ones), and the scale that multiplies them.
template <WeightFormat format>
struct DeviceChunk;

template <>
struct DeviceChunk<WeightFormat::f32> {
    static constexpr int elements = 4;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, int, float (&quants)[4]) { widen_pack(pack, quants); }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const&, std::int64_t, std::int64_t) { return 1.0F; }
};

template <>
struct DeviceChunk<WeightFormat::bf16> {
    static constexpr int elements = 8;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, int four, float (&quants)[4]) {
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 2; ++i) {
            auto const word = pack.words[2 * four + i];
            quants[2 * i] = float_of_bits(word << 16U);
            quants[2 * i + 1] = float_of_bits(word & 0xFFFF0000U);
        }
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const&, std::int64_t, std::int64_t) { return 1.0F; }
};

template <>
struct DeviceChunk<WeightFormat::f16> {
    static constexpr int elements = 8;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, int four, float (&quants)[4]) {
        SHARDWISE_DEVICE_UNROLL
        for (int i = 0; i < 2; ++i) {
            auto const word = pack.words[2 * four + i];
            quants[2 * i] = half_value(static_cast<std::uint16_t>(word & 0xFFFFU));
            quants[2 * i + 1] = half_value(static_cast<std::uint16_t>(word >> 16U));
        }
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const&, std::int64_t, std::int64_t) { return 1.0F; }
};

/// Four signed bytes of a word.
SHARDWISE_DEVICE inline void decode_bytes(std::uint32_t word, float (&quants)[4]) {
    SHARDWISE_DEVICE_UNROLL
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
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, int four, float (&quants)[4]) {
        decode_bytes(pack.words[four], quants);
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const& weight, std::int64_t output, std::int64_t) {
        return reinterpret_cast<float const*>(weight.scales)[output];
    }
};

template <>
struct DeviceChunk<WeightFormat::q8_0> {
    static constexpr int elements = 16;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, int four, float (&quants)[4]) {
        decode_bytes(pack.words[four], quants);
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return half_scale(weight, output * weight.scale_row + chunk / 2);
    }
};

template <>
struct DeviceChunk<WeightFormat::q4_0> {
    static constexpr int elements = 32;
    SHARDWISE_DEVICE static void decode(Pack16 const& pack, int four, float (&quants)[4]) {
        // The low halves of the bytes are the first sixteen elements.
        auto const word = pack.words[four % 4] >> (four < 4 ? 0U : 4U);
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < 4; ++i) {
            quants[i] = static_cast<float>(static_cast<int>((word >> (8 * i)) & 15U) - 8);
        }
    }
    SHARDWISE_DEVICE static float scale(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
        return half_scale(weight, output * weight.scale_row + chunk);
    }
};

/// The chunk of a weight's row at an index; what lies after the row's end is not its own.
template <WeightFormat format>
[[nodiscard]] SHARDWISE_DEVICE Pack16 load_chunk(DeviceWeightView const& weight, std::int64_t output,
                                                 std::int64_t chunk) {
    auto const left = weight.inputs - chunk * DeviceChunk<format>::elements;
    // An element's bytes, or those of a pair of elements that share one.
    auto const left_bytes = left * 16 / DeviceChunk<format>::elements;
    return load_row_pack(weight.rows + output * weight.row_bytes + chunk * 16, left_bytes);
}

/// What one chunk of a weight's row adds to its products with `rows` rows of activations.
template <WeightFormat format, unsigned rows>
SHARDWISE_DEVICE void multiply_chunk(MultiplyCall const& call, std::int64_t output, std::int64_t chunk,
                                     std::int64_t first_row, float (&sums)[rows]) {
    using Chunk = DeviceChunk<format>;
    auto const first = chunk * Chunk::elements;
    auto const left = call.weight.inputs - first;
    auto const pack = load_chunk<format>(call.weight, output, chunk);
    auto const* const in = call.in + first_row * call.in_row + first;
    bool const is_whole = left >= Chunk::elements && is_on_pack(in) && (rows == 1 || call.in_row % 4 == 0);
    float chunk_sums[rows] = {};
    // Constant bounds: quants that are indexed at run time would lie in memory.
    SHARDWISE_DEVICE_UNROLL
    for (int four = 0; four < Chunk::elements / 4; ++four) {
        float quants[4];
        Chunk::decode(pack, four, quants);
        SHARDWISE_DEVICE_UNROLL
        for (unsigned row = 0; row < rows; ++row) {
            if (first_row + row >= call.rows) break;
            auto const* const values = in + row * call.in_row + 4 * four;
            if (is_whole) {
                float x[4];
                widen_pack(load_pack(values), x);
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < 4; ++i) chunk_sums[row] += quants[i] * x[i];
            } else {
                SHARDWISE_DEVICE_UNROLL
                for (int i = 0; i < 4; ++i) chunk_sums[row] += 4 * four + i < left ? quants[i] * values[i] : 0.0F;
            }
        }
    }
    auto const scale = Chunk::scale(call.weight, output, chunk);
    SHARDWISE_DEVICE_UNROLL
    for (unsigned row = 0; row < rows; ++row) sums[row] += scale * chunk_sums[row];
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
