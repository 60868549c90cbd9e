// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/shape.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A tensor type of GGUF under the number that files store.
///
/// Source  ggml.h (enum ggml_type)
enum class GgmlType : std::uint32_t {
    f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q5_0 = 6, q5_1 = 7, q8_0 = 8, q8_1 = 9,
    q2_k = 10, q3_k = 11, q4_k = 12, q5_k = 13, q6_k = 14, q8_k = 15,
    iq2_xxs = 16, iq2_xs = 17, iq3_xxs = 18, iq1_s = 19, iq4_nl = 20, iq3_s = 21, iq2_s = 22, iq4_xs = 23,
    i8 = 24, i16 = 25, i32 = 26, i64 = 27, f64 = 28, iq1_m = 29, bf16 = 30,
    tq1_0 = 34, tq2_0 = 35, mxfp4 = 39, nvfp4 = 40, q1_0 = 41, q2_0 = 42,
};

/// How a type stores a row: whole blocks of `block_elements` elements in `block_bytes` bytes.
struct GgmlTypeTraits {
    /// As llama.cpp and file names write it: "Q4_K".
    std::string_view name;
    /// 0 for a number whose type was removed: no current reader takes such a file.
    std::uint16_t block_elements;
    std::uint16_t block_bytes;
    /// True for types that approximate: scales and small integers instead of the elements.
    bool is_quantized;
    /// What stands in where a row is no whole number of blocks (F16 where it is none of this one's either).
    GgmlType stand_in = GgmlType::f16;
    /// True where products take it without decoding all of it first: what a WeightFormat holds, which checks it.
    bool is_multiplied = false;

    [[nodiscard]] constexpr bool is_removed() const { return block_elements == 0; }
};

/// Every type number from 0 on.
///
/// Source  ggml.c (type_traits) and ggml-common.h (the block structs); gguf 0.19 GGML_QUANT_SIZES, which gives Q8_1 40
///         bytes where the struct has 36 (no file holds that type), and does not know Q2_0 yet; llama-quant.cpp
///         (tensor_type_fallback)
inline constexpr std::array<GgmlTypeTraits, 43> ggml_type_table{{
    {"F32", 1, 4, false},
    {"F16", 1, 2, false},
    {"Q4_0", 32, 18, true, GgmlType::f16, true},
    {"Q4_1", 32, 20, true, GgmlType::f16, true},
    {"Q4_2", 0, 0, true},
    {"Q4_3", 0, 0, true},
    {"Q5_0", 32, 22, true, GgmlType::f16, true},
    {"Q5_1", 32, 24, true, GgmlType::f16, true},
    {"Q8_0", 32, 34, true, GgmlType::f16, true},
    {"Q8_1", 32, 36, true},
    {"Q2_K", 256, 84, true, GgmlType::q4_0},
    {"Q3_K", 256, 110, true, GgmlType::q4_0},
    {"Q4_K", 256, 144, true, GgmlType::q5_0, true},
    {"Q5_K", 256, 176, true, GgmlType::q5_1, true},
    {"Q6_K", 256, 210, true, GgmlType::q8_0, true},
    {"Q8_K", 256, 292, true},
    {"IQ2_XXS", 256, 66, true, GgmlType::iq4_nl},
    {"IQ2_XS", 256, 74, true, GgmlType::iq4_nl},
    {"IQ3_XXS", 256, 98, true, GgmlType::iq4_nl},
    {"IQ1_S", 256, 50, true, GgmlType::iq4_nl},
    {"IQ4_NL", 32, 18, true},
    {"IQ3_S", 256, 110, true, GgmlType::iq4_nl},
    {"IQ2_S", 256, 82, true, GgmlType::iq4_nl},
    {"IQ4_XS", 256, 136, true, GgmlType::iq4_nl},
    {"I8", 1, 1, false},
    {"I16", 1, 2, false},
    {"I32", 1, 4, false},
    {"I64", 1, 8, false},
    {"F64", 1, 8, false},
    {"IQ1_M", 256, 56, true, GgmlType::iq4_nl},
    {"BF16", 1, 2, false},
    {"Q4_0_4_4", 0, 0, true},
    {"Q4_0_4_8", 0, 0, true},
    {"Q4_0_8_8", 0, 0, true},
    {"TQ1_0", 256, 54, true, GgmlType::q4_0},
    {"TQ2_0", 256, 66, true, GgmlType::q4_0},
    {"IQ4_NL_4_4", 0, 0, true},
    {"IQ4_NL_4_8", 0, 0, true},
    {"IQ4_NL_8_8", 0, 0, true},
    {"MXFP4", 32, 17, true, GgmlType::f16, true},
    {"NVFP4", 64, 36, true},
    {"Q1_0", 128, 18, true},
    {"Q2_0", 64, 18, true, GgmlType::q4_0},
}};

[[nodiscard]] constexpr GgmlTypeTraits const& traits(GgmlType type) {
    return ggml_type_table[static_cast<std::size_t>(type)];
}

/// The name that belongs to a type: "Q4_K".
[[nodiscard]] constexpr std::string_view name_of(GgmlType type) { return traits(type).name; }

/// The type of a number from a file, or nothing for an unknown or a removed one; ask removed_ggml_type which.
[[nodiscard]] constexpr Optional<GgmlType> ggml_type_of(std::uint32_t number) {
    if (number >= ggml_type_table.size() || ggml_type_table[number].is_removed()) return std::nullopt;
    return static_cast<GgmlType>(number);
}

/// The name of a number whose type was removed ("Q4_0_4_4"), empty for any other number.
[[nodiscard]] constexpr std::string_view removed_ggml_type(std::uint32_t number) {
    if (number >= ggml_type_table.size() || !ggml_type_table[number].is_removed()) return {};
    return ggml_type_table[number].name;
}

namespace detail {

/// True where a table has one row for every type that files may hold.
template <class Rows>
[[nodiscard]] constexpr bool has_each_ggml_type(Rows const& rows) {
    for (std::uint32_t number = 0; number < ggml_type_table.size(); ++number) {
        int found = 0;
        for (auto const& row : rows) found += static_cast<std::uint32_t>(row.type) == number ? 1 : 0;
        if (found != (ggml_type_table[number].is_removed() ? 0 : 1)) return false;
    }
    return true;
}

[[nodiscard]] constexpr char lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Whether two texts are the same but for the case of ASCII letters.
[[nodiscard]] constexpr bool is_same_name(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (lower_case(a[i]) != lower_case(b[i])) return false;
    }
    return true;
}

}  // namespace detail

/// Finds a type by its name in any case; removed types are not found.
[[nodiscard]] constexpr Optional<GgmlType> parse_ggml_type(std::string_view text) {
    for (std::uint32_t number = 0; number < ggml_type_table.size(); ++number) {
        if (detail::is_same_name(text, ggml_type_table[number].name)) return ggml_type_of(number);
    }
    return std::nullopt;
}

/// Bytes of one row; nothing where `columns` is negative or no multiple of the block, or where the size overflows.
///
/// Units  bytes
[[nodiscard]] constexpr Optional<std::int64_t> ggml_row_bytes(GgmlType type, std::int64_t columns) {
    auto const& row = traits(type);
    if (columns < 0 || columns % row.block_elements != 0) return std::nullopt;
    return checked_multiply(columns / row.block_elements, row.block_bytes);
}

/// Bytes of a tensor whose rows are its last dimension; a scalar is a row of one. Nothing as for a row.
///
/// Units  bytes
[[nodiscard]] constexpr Optional<std::int64_t> ggml_bytes(GgmlType type, Shape const& shape) {
    auto const columns = shape.rank() == 0 ? std::int64_t{1} : shape[shape.rank() - 1];
    auto total = ggml_row_bytes(type, columns);
    for (std::size_t i = 0; i + 1 < shape.rank() && total; ++i) total = checked_multiply(*total, shape[i]);
    return total;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
