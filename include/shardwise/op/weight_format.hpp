// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/quant/ggml_type.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The formats in which a back end multiplies by a weight without decoding all of it first.
enum class WeightFormat : std::uint8_t {
    f32,
    bf16,
    f16,
    int8,   // a scale per row (bitsandbytes, --quant int8)
    int4,   // ours: scale * (q - 8), a scale per group of a row
    nf4,    // bitsandbytes: a code table, an absmax per 64 elements of the flattened matrix
    mxfp4,  // OCP MX: E2M1 with a power of two per 32
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q8_0,
    q4_k,
    q5_k,
    q6_k,
};

/// What a format is called, and how many elements of a row share a block that cannot be cut.
struct WeightFormatTraits {
    std::string_view name;
    std::int64_t block_elements;
    /// Bytes of one block as checkpoints store it, scales inside; 0 where the scales lie in a tensor of their own.
    std::int64_t block_bytes;
};

namespace detail {

/// Not inside of the function: it would be copied at every call, which packing makes for each block.
inline constexpr std::array<WeightFormatTraits, 15> weight_format_table{{
    {"fp32", 1, 4},
    {"bf16", 1, 2},
    {"fp16", 1, 2},
    {"int8", 1, 0},
    {"int4", 2, 0},
    {"nf4", 64, 0},
    {"mxfp4", 32, 0},
    {"q4_0", 32, 18},
    {"q4_1", 32, 20},
    {"q5_0", 32, 22},
    {"q5_1", 32, 24},
    {"q8_0", 32, 34},
    {"q4_k", 256, 144},
    {"q5_k", 256, 176},
    {"q6_k", 256, 210},
}};

}  // namespace detail

[[nodiscard]] constexpr WeightFormatTraits traits(WeightFormat format) {
    return detail::weight_format_table[static_cast<std::size_t>(format)];
}

[[nodiscard]] constexpr std::string_view name_of(WeightFormat format) {
    return traits(format).name;
}

/// The format of a GGUF tensor type; nothing for a type that has to be decoded before it is multiplied.
[[nodiscard]] constexpr Optional<WeightFormat> weight_format(GgmlType type) {
    switch (type) {
        case GgmlType::f32:
            return WeightFormat::f32;
        case GgmlType::bf16:
            return WeightFormat::bf16;
        case GgmlType::f16:
            return WeightFormat::f16;
        case GgmlType::q4_0:
            return WeightFormat::q4_0;
        case GgmlType::q4_1:
            return WeightFormat::q4_1;
        case GgmlType::q5_0:
            return WeightFormat::q5_0;
        case GgmlType::q5_1:
            return WeightFormat::q5_1;
        case GgmlType::q8_0:
            return WeightFormat::q8_0;
        case GgmlType::q4_k:
            return WeightFormat::q4_k;
        case GgmlType::q5_k:
            return WeightFormat::q5_k;
        case GgmlType::q6_k:
            return WeightFormat::q6_k;
        default:
            return std::nullopt;
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
