// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/enumerator_count.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/quant/ggml_type.hpp>
#include <shardwise/quant/quant_method.hpp>
#include <shardwise/quant/stored_row.hpp>
#include <shardwise/quant/weight_format_kind.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

inline constexpr std::size_t weight_format_count = enumerator_count<WeightFormat>();

/// Where the scales of a format lie.
enum class ScalePlace : std::uint8_t {
    none,
    blocks,  // inside of its blocks
    row,     // apart, one for a whole row
    group,   // apart, one for each group of a row, whose size the weight says
    block,   // apart, one for each block_elements
};

/// All that is said of a format as checkpoints store it. What a back end makes of it is a row of that back end's own table.
struct WeightFormatTraits {
    WeightFormat format = WeightFormat::f32;
    std::string_view name{};
    /// Elements of a row that share a block that cannot be cut.
    std::int64_t block_elements = 1;
    /// Of one element, without scales.
    std::int64_t bits = 0;
    /// Bytes of one block, scales inside; 0 where the scales lie in a tensor of their own.
    std::int64_t block_bytes = 0;
    ScalePlace scales = ScalePlace::none;
    /// Of one scale that lies apart.
    std::int64_t scale_bytes = 0;
    /// Decodes elements [first, first + count) of a row, which are whole blocks.
    void (*decode)(detail::StoredRow const& row, std::int64_t first, std::int64_t count, float* out) = nullptr;
    /// Encodes whole blocks; null where weights are not quantised to it here.
    void (*encode)(std::span<float const> values, std::int64_t group, detail::WrittenRow const& row) = nullptr;
    /// What stores whole tensors of it: GGUF's type, the dtype of torch and safetensors, a scheme that packs into it.
    Optional<GgmlType> ggml{};
    /// GGUF's type of the same values in another order.
    Optional<GgmlType> ggml_reordered{};
    Optional<Dtype> dtype{};
    Optional<QuantMethod> method{};
};

namespace detail {

/// Whether a table has a row for each format, in the order of the enumeration.
template <class Rows>
[[nodiscard]] constexpr bool has_each_format(Rows const& rows) {
    if (rows.size() != weight_format_count) return false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (static_cast<std::size_t>(rows[i].format) != i) return false;
    }
    return true;
}

/// The blocks of a GGUF type, whose row says how they are decoded and encoded.
template <GgmlType type>
[[nodiscard]] constexpr WeightFormatTraits ggml_format(WeightFormat format, std::string_view name, std::int64_t bits,
                                                       decltype(WeightFormatTraits::encode) encode = nullptr) {
    return {.format = format,
            .name = name,
            .block_elements = traits(type).block_elements,
            .bits = bits,
            .block_bytes = traits(type).block_bytes,
            .scales = ScalePlace::blocks,
            .decode = &decode_ggml_row<type>,
            .encode = encode,
            .ggml = type};
}

}  // namespace detail

// clang-format off
/// Every format in the order of the enumeration.
inline constexpr std::array weight_format_table{
    WeightFormatTraits{.format = WeightFormat::f32, .name = "fp32", .bits = 32, .block_bytes = 4,
                       .decode = &detail::decode_f32_row, .encode = &detail::encode_f32_row,
                       .ggml = GgmlType::f32, .dtype = Dtype::f32},
    WeightFormatTraits{.format = WeightFormat::bf16, .name = "bf16", .bits = 16, .block_bytes = 2,
                       .decode = &detail::decode_bf16_row, .encode = &detail::encode_bf16_row,
                       .ggml = GgmlType::bf16, .dtype = Dtype::bf16},
    WeightFormatTraits{.format = WeightFormat::f16, .name = "fp16", .bits = 16, .block_bytes = 2,
                       .decode = &detail::decode_f16_row, .encode = &detail::encode_f16_row,
                       .ggml = GgmlType::f16, .dtype = Dtype::f16},
    WeightFormatTraits{.format = WeightFormat::int8, .name = "int8", .bits = 8,
                       .scales = ScalePlace::row, .scale_bytes = 4,
                       .decode = &detail::decode_int8_row, .encode = &detail::encode_int8_values,
                       .method = QuantMethod::int8},
    WeightFormatTraits{.format = WeightFormat::int4, .name = "int4", .block_elements = 2, .bits = 4,
                       .scales = ScalePlace::group, .scale_bytes = 2,
                       .decode = &detail::decode_int4_groups, .encode = &detail::encode_int4_groups,
                       .method = QuantMethod::int4},
    WeightFormatTraits{.format = WeightFormat::nf4, .name = "nf4", .block_elements = 64, .bits = 4,
                       .scales = ScalePlace::block, .scale_bytes = 4,
                       .decode = &detail::decode_nf4_row, .encode = &detail::encode_nf4_row,
                       .method = QuantMethod::nf4},
    WeightFormatTraits{.format = WeightFormat::mxfp4, .name = "mxfp4", .block_elements = 32, .bits = 4,
                       .scales = ScalePlace::block, .scale_bytes = 1,
                       .decode = &detail::decode_mxfp4_row, .encode = &detail::encode_mxfp4_row,
                       .ggml_reordered = GgmlType::mxfp4, .method = QuantMethod::mxfp4},
    detail::ggml_format<GgmlType::q4_0>(WeightFormat::q4_0, "q4_0", 4, &detail::encode_ggml_row<GgmlType::q4_0>),
    detail::ggml_format<GgmlType::q4_1>(WeightFormat::q4_1, "q4_1", 4, &detail::encode_ggml_row<GgmlType::q4_1>),
    detail::ggml_format<GgmlType::q5_0>(WeightFormat::q5_0, "q5_0", 5, &detail::encode_ggml_row<GgmlType::q5_0>),
    detail::ggml_format<GgmlType::q5_1>(WeightFormat::q5_1, "q5_1", 5, &detail::encode_ggml_row<GgmlType::q5_1>),
    detail::ggml_format<GgmlType::q8_0>(WeightFormat::q8_0, "q8_0", 8, &detail::encode_ggml_row<GgmlType::q8_0>),
    detail::ggml_format<GgmlType::q4_k>(WeightFormat::q4_k, "q4_k", 4),
    detail::ggml_format<GgmlType::q5_k>(WeightFormat::q5_k, "q5_k", 5),
    detail::ggml_format<GgmlType::q6_k>(WeightFormat::q6_k, "q6_k", 6),
};
// clang-format on

static_assert(detail::has_each_format(weight_format_table), "weight_format_table has one row for each format, in their order");

[[nodiscard]] constexpr WeightFormatTraits const& traits(WeightFormat format) {
    return weight_format_table[static_cast<std::size_t>(format)];
}

[[nodiscard]] constexpr std::string_view name_of(WeightFormat format) {
    return traits(format).name;
}

/// The format of a GGUF tensor type; nothing for a type that has to be decoded before it is multiplied.
[[nodiscard]] constexpr Optional<WeightFormat> weight_format(GgmlType type) {
    for (auto const& row : weight_format_table) {
        if (row.ggml == type) return row.format;
    }
    return std::nullopt;
}

/// The format that holds the values of a GGUF tensor type in another order; nothing for a type that has none.
[[nodiscard]] constexpr Optional<WeightFormat> reordered_format(GgmlType type) {
    for (auto const& row : weight_format_table) {
        if (row.ggml_reordered == type) return row.format;
    }
    return std::nullopt;
}

namespace detail {

[[nodiscard]] constexpr bool names_multiplied_types() {
    for (std::uint32_t i = 0; i < ggml_type_table.size(); ++i) {
        auto const type = static_cast<GgmlType>(i);
        if (!traits(type).is_quantized || traits(type).is_removed()) continue;
        if (traits(type).is_multiplied != (weight_format(type) || reordered_format(type))) return false;
    }
    return true;
}
static_assert(names_multiplied_types(),
              "ggml_type_table says is_multiplied of the types that a row of weight_format_table holds");

}  // namespace detail

/// The format in which safetensors store whole tensors of a dtype; nothing for other dtypes.
[[nodiscard]] constexpr Optional<WeightFormat> weight_format(Dtype dtype) {
    for (auto const& row : weight_format_table) {
        if (row.dtype == dtype) return row.format;
    }
    return std::nullopt;
}

/// The format that a scheme packs weights into; nothing for those of GGUF, whose types say so, and those that are only read.
[[nodiscard]] constexpr Optional<WeightFormat> weight_format(QuantMethod method) {
    for (auto const& row : weight_format_table) {
        if (row.method == method) return row.format;
    }
    return std::nullopt;
}

/// What a row is a multiple of. Groups end with their row, whose last byte is filled.
[[nodiscard]] constexpr std::int64_t row_multiple(WeightFormat format) {
    return traits(format).scales == ScalePlace::group ? 1 : traits(format).block_elements;
}

namespace detail {

/// Bytes of the first `inputs` elements of a row: whole blocks, or the whole row.
[[nodiscard]] constexpr std::int64_t data_bytes(WeightFormat format, std::int64_t inputs) {
    auto const& unit = traits(format);
    return unit.block_bytes > 0 ? inputs / unit.block_elements * unit.block_bytes
                                : ceil_divide(inputs, 8 / unit.bits);
}

/// Elements of a row that share a scale which lies apart; `inputs` are the whole row's.
[[nodiscard]] constexpr std::int64_t scale_span(WeightFormat format, std::int64_t inputs, std::int64_t group) {
    auto const& unit = traits(format);
    switch (unit.scales) {
        case ScalePlace::row: return inputs;
        case ScalePlace::group: return group;
        case ScalePlace::none:
        case ScalePlace::blocks:
        case ScalePlace::block: break;
    }
    return unit.block_elements;
}

/// Bytes of the scales that lie apart: of a whole row, or of its first `inputs` elements where one is not for all of them.
[[nodiscard]] constexpr std::int64_t scale_bytes(WeightFormat format, std::int64_t inputs, std::int64_t group) {
    auto const& unit = traits(format);
    switch (unit.scales) {
        case ScalePlace::none:
        case ScalePlace::blocks: break;
        case ScalePlace::row: return unit.scale_bytes;
        case ScalePlace::group: return group > 0 ? ceil_divide(inputs, group) * unit.scale_bytes : 0;
        case ScalePlace::block: return inputs / unit.block_elements * unit.scale_bytes;
    }
    return 0;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
