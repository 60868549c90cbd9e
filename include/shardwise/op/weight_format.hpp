// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/quant/ggml_type.hpp>

#include <array>
#include <cstddef>
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
    /// The GGUF tensor type, and the dtype of safetensors, that are this format as they are stored.
    Optional<GgmlType> ggml;
    Optional<Dtype> dtype{};
};

namespace detail {

/// Not inside of the function: it would be copied at every call, which packing makes for each block.
inline constexpr std::array<WeightFormatTraits, 15> weight_format_table{{
    {"fp32", 1, 4, GgmlType::f32, Dtype::f32},
    {"bf16", 1, 2, GgmlType::bf16, Dtype::bf16},
    {"fp16", 1, 2, GgmlType::f16, Dtype::f16},
    {"int8", 1, 0, std::nullopt},
    {"int4", 2, 0, std::nullopt},
    {"nf4", 64, 0, std::nullopt},
    {"mxfp4", 32, 0, std::nullopt},
    {"q4_0", 32, 18, GgmlType::q4_0},
    {"q4_1", 32, 20, GgmlType::q4_1},
    {"q5_0", 32, 22, GgmlType::q5_0},
    {"q5_1", 32, 24, GgmlType::q5_1},
    {"q8_0", 32, 34, GgmlType::q8_0},
    {"q4_k", 256, 144, GgmlType::q4_k},
    {"q5_k", 256, 176, GgmlType::q5_k},
    {"q6_k", 256, 210, GgmlType::q6_k},
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
    for (std::size_t i = 0; i < detail::weight_format_table.size(); ++i) {
        if (detail::weight_format_table[i].ggml == type) return static_cast<WeightFormat>(i);
    }
    return std::nullopt;
}

/// The format in which safetensors store whole tensors of a dtype; nothing for other dtypes.
[[nodiscard]] constexpr Optional<WeightFormat> weight_format(Dtype dtype) {
    for (std::size_t i = 0; i < detail::weight_format_table.size(); ++i) {
        if (detail::weight_format_table[i].dtype == dtype) return static_cast<WeightFormat>(i);
    }
    return std::nullopt;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
