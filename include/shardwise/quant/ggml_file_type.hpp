// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/enumerator_count.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/quant/ggml_type.hpp>
#include <shardwise/quant/mix_rules.hpp>
#include <shardwise/quant/weight.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What llama.cpp's quantiser can make of a whole model, under the number of `general.file_type`: most of them choose
/// the type of each tensor by its role and layer.
///
/// Source  llama.h (enum llama_ftype)
enum class GgmlFileType : std::uint8_t {
    all_f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 7, q5_0 = 8, q5_1 = 9, q2_k = 10,
    q3_k_s = 11, q3_k_m = 12, q3_k_l = 13, q4_k_s = 14, q4_k_m = 15, q5_k_s = 16, q5_k_m = 17, q6_k = 18,
    iq2_xxs = 19, iq2_xs = 20, q2_k_s = 21, iq3_xs = 22, iq3_xxs = 23, iq1_s = 24, iq4_nl = 25, iq3_s = 26,
    iq3_m = 27, iq2_s = 28, iq2_m = 29, iq4_xs = 30, iq1_m = 31, bf16 = 32,
    tq1_0 = 36, tq2_0 = 37, mxfp4_moe = 38, nvfp4 = 39, q1_0 = 40, q2_0 = 41,
};

struct GgmlFileTypeTraits {
    GgmlFileType file_type;
    /// As llama-quantize takes it and published files carry it: "Q4_K_M".
    std::string_view name;
    /// The type of tensors for which the mixture has no other.
    GgmlType usual;
    Mixture mixture{};
};

// clang-format off
/// Every file type by number.
///
/// Source  llama-quant.cpp (llama_ftype_get_default_type, llama_tensor_get_type_impl), tools/quantize/quantize.cpp (names)
inline constexpr std::array<GgmlFileTypeTraits, 36> ggml_file_type_table{{
    {GgmlFileType::all_f32, "F32", GgmlType::f32},
    {GgmlFileType::f16, "F16", GgmlType::f16},
    {GgmlFileType::q4_0, "Q4_0", GgmlType::q4_0,
     {.ffn_down = {{{GgmlType::q4_1, MixModels::important, MixLayers::first_eighth}}}}},
    {GgmlFileType::q4_1, "Q4_1", GgmlType::q4_1},
    {GgmlFileType::q8_0, "Q8_0", GgmlType::q8_0},
    {GgmlFileType::q5_0, "Q5_0", GgmlType::q5_0,
     {.ffn_down = {{{GgmlType::q5_1, MixModels::important, MixLayers::first_eighth}}}}},
    {GgmlFileType::q5_1, "Q5_1", GgmlType::q5_1},
    {GgmlFileType::q2_k, "Q2_K", GgmlType::q2_k,
     {.attention_v = {{{GgmlType::q4_k, MixModels::shared}, {GgmlType::q3_k, MixModels::any}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}, {GgmlType::q3_k, MixModels::heavy_other}}},
      .ffn_down = {{{GgmlType::q3_k, MixModels::any}}}}},
    {GgmlFileType::q3_k_s, "Q3_K_S", GgmlType::q3_k,
     {.attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}}}}},
    {GgmlFileType::q3_k_m, "Q3_K_M", GgmlType::q3_k,
     {.attention_v = {{{GgmlType::q5_k, MixModels::any, MixLayers::first_two}, {GgmlType::q4_k, MixModels::any}}},
      .attention_qkv = {{{GgmlType::q4_k, MixModels::any}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}, {GgmlType::q4_k, MixModels::heavy_other}}},
      .ffn_down = {{{GgmlType::q5_k, MixModels::any, MixLayers::first_sixteenth},
            {GgmlType::q4_k, MixModels::heavy}, {GgmlType::q4_k, MixModels::any, MixLayers::favoured}}}}},
    {GgmlFileType::q3_k_l, "Q3_K_L", GgmlType::q3_k,
     {.attention_v = {{{GgmlType::q5_k, MixModels::any}}}, .attention_qkv = {{{GgmlType::q4_k, MixModels::any}}},
      .attention_output = {{{GgmlType::q4_k, MixModels::light}, {GgmlType::q5_k, MixModels::heavy_other}}},
      .ffn_down = {{{GgmlType::q4_k, MixModels::light}, {GgmlType::q5_k, MixModels::any}}}}},
    {GgmlFileType::q4_k_s, "Q4_K_S", GgmlType::q4_k,
     {.attention_v = {{{GgmlType::q5_k, MixModels::any, MixLayers::first_four}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}}},
      .ffn_down = {{{GgmlType::q5_k, MixModels::heavy, MixLayers::first_eighth}}}}},
    {GgmlFileType::q4_k_m, "Q4_K_M", GgmlType::q4_k,
     {.attention_v = {{{GgmlType::q6_k, MixModels::any, MixLayers::favoured}}},
      .attention_qkv = {{{GgmlType::q5_k, MixModels::any}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}}},
      .ffn_down = {{{GgmlType::q6_k, MixModels::heavy, MixLayers::favoured},
            {GgmlType::q6_k, MixModels::light, MixLayers::first_sixteenth},
            {GgmlType::q5_k, MixModels::light, MixLayers::favoured}}}}},
    {GgmlFileType::q5_k_s, "Q5_K_S", GgmlType::q5_k},
    {GgmlFileType::q5_k_m, "Q5_K_M", GgmlType::q5_k,
     {.attention_v = {{{GgmlType::q6_k, MixModels::any, MixLayers::favoured}}},
      .attention_qkv = {{{GgmlType::q6_k, MixModels::any}}},
      .ffn_down = {{{GgmlType::q6_k, MixModels::any, MixLayers::favoured}}}}},
    {GgmlFileType::q6_k, "Q6_K", GgmlType::q6_k},
    {GgmlFileType::iq2_xxs, "IQ2_XXS", GgmlType::iq2_xxs,
     {.output = GgmlType::q5_k, .embedding = GgmlType::q2_k,
      .attention_k = {{{GgmlType::q4_k, MixModels::eight_experts}}},
      .attention_v = {{{GgmlType::q4_k, MixModels::shared}, {GgmlType::q4_k, MixModels::four_experts},
            {GgmlType::q2_k, MixModels::any}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::eight_experts}}},
      .ffn_down = {{{GgmlType::q2_k, MixModels::any, MixLayers::first_eighth}}}, .is_lowest = true}},
    {GgmlFileType::iq2_xs, "IQ2_XS", GgmlType::iq2_xs,
     {.output = GgmlType::q5_k, .embedding = GgmlType::q2_k,
      .attention_k = {{{GgmlType::q4_k, MixModels::eight_experts}}},
      .attention_v = {{{GgmlType::q4_k, MixModels::shared}, {GgmlType::q4_k, MixModels::four_experts},
            {GgmlType::q2_k, MixModels::any}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::eight_experts}}},
      .ffn_down = {{{GgmlType::q2_k, MixModels::any, MixLayers::first_eighth}}}, .is_lowest = true}},
    {GgmlFileType::q2_k_s, "Q2_K_S", GgmlType::q2_k,
     {.attention_v = {{{GgmlType::q4_k, MixModels::shared}}},
      .ffn_down = {{{GgmlType::q4_k, MixModels::any, MixLayers::first_eighth}}}}},
    {GgmlFileType::iq3_xs, "IQ3_XS", GgmlType::iq3_s,
     {.attention_q = {{{GgmlType::iq3_xxs, MixModels::any}}}, .attention_k = {{{GgmlType::iq3_xxs, MixModels::any}}},
      .attention_v = {{{GgmlType::q4_k, MixModels::shared}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}}},
      .ffn_up = {{{GgmlType::iq3_xxs, MixModels::any, MixLayers::middle}}}}},
    {GgmlFileType::iq3_xxs, "IQ3_XXS", GgmlType::iq3_xxs,
     {.output = GgmlType::q5_k, .embedding = GgmlType::iq3_s, .attention_q = {{{GgmlType::iq2_s, MixModels::any}}},
      .attention_k = {{{GgmlType::iq2_s, MixModels::any}}}, .attention_v = {{{GgmlType::q4_k, MixModels::shared}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}, {GgmlType::iq3_s, MixModels::heavy_other}}}}},
    {GgmlFileType::iq1_s, "IQ1_S", GgmlType::iq1_s,
     {.output = GgmlType::q5_k, .embedding = GgmlType::q2_k,
      .attention_k = {{{GgmlType::q4_k, MixModels::eight_experts}}},
      .attention_v = {{{GgmlType::q4_k, MixModels::shared}, {GgmlType::q4_k, MixModels::four_experts},
            {GgmlType::q2_k, MixModels::any}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::eight_experts}, {GgmlType::iq2_xxs, MixModels::any}}},
      .ffn_down = {{{GgmlType::q2_k, MixModels::any, MixLayers::first_eighth}}}, .is_lowest = true}},
    {GgmlFileType::iq4_nl, "IQ4_NL", GgmlType::iq4_nl,
     {.attention_v = {{{GgmlType::q5_k, MixModels::shared}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}}},
      .ffn_down = {{{GgmlType::q5_k, MixModels::unimportant, MixLayers::first_eighth}}}}},
    {GgmlFileType::iq3_s, "IQ3_S", GgmlType::iq3_s,
     {.attention_v = {{{GgmlType::q4_k, MixModels::shared}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}}}}},
    {GgmlFileType::iq3_m, "IQ3_M", GgmlType::iq3_s,
     {.attention_v = {{{GgmlType::q4_k, MixModels::any}}}, .attention_qkv = {{{GgmlType::q4_k, MixModels::any}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}, {GgmlType::q4_k, MixModels::heavy_other}}},
      .ffn_down = {{{GgmlType::q4_k, MixModels::any, MixLayers::first_eighth},
            {GgmlType::q4_k, MixModels::eight_experts, MixLayers::favoured}}}}},
    {GgmlFileType::iq2_s, "IQ2_S", GgmlType::iq2_xs,
     {.output = GgmlType::q5_k, .embedding = GgmlType::iq3_s,
      .attention_k = {{{GgmlType::q4_k, MixModels::eight_experts}}},
      .attention_v = {{{GgmlType::q4_k, MixModels::shared}, {GgmlType::q4_k, MixModels::four_experts},
            {GgmlType::iq3_s, MixModels::any}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::eight_experts}, {GgmlType::iq3_s, MixModels::any}}},
      .ffn_down = {{{GgmlType::iq3_s, MixModels::any, MixLayers::first_eighth}}}, .is_lowest = true}},
    {GgmlFileType::iq2_m, "IQ2_M", GgmlType::iq2_s,
     {.output = GgmlType::q5_k, .embedding = GgmlType::iq3_s,
      .attention_k = {{{GgmlType::q4_k, MixModels::eight_experts}}},
      .attention_v = {{{GgmlType::q4_k, MixModels::shared}, {GgmlType::q4_k, MixModels::four_experts},
            {GgmlType::iq3_s, MixModels::any}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::eight_experts}, {GgmlType::iq3_s, MixModels::any}}},
      .ffn_down = {{{GgmlType::iq3_s, MixModels::any, MixLayers::first_eighth}}}, .is_lowest = true}},
    {GgmlFileType::iq4_xs, "IQ4_XS", GgmlType::iq4_xs,
     {.attention_v = {{{GgmlType::q5_k, MixModels::shared}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::heavy_eight}}},
      .ffn_down = {{{GgmlType::q5_k, MixModels::unimportant, MixLayers::first_eighth}}}}},
    {GgmlFileType::iq1_m, "IQ1_M", GgmlType::iq1_m,
     {.output = GgmlType::q5_k, .embedding = GgmlType::q2_k,
      .attention_k = {{{GgmlType::q4_k, MixModels::eight_experts}}},
      .attention_v = {{{GgmlType::q4_k, MixModels::shared}, {GgmlType::q4_k, MixModels::four_experts},
            {GgmlType::q2_k, MixModels::any}}},
      .attention_output = {{{GgmlType::q5_k, MixModels::eight_experts}, {GgmlType::iq2_xxs, MixModels::any}}},
      .ffn_down = {{{GgmlType::q2_k, MixModels::any, MixLayers::first_eighth}}}, .is_lowest = true}},
    {GgmlFileType::bf16, "BF16", GgmlType::bf16},
    {GgmlFileType::tq1_0, "TQ1_0", GgmlType::tq1_0,
     {.embedding = GgmlType::q4_k}},
    {GgmlFileType::tq2_0, "TQ2_0", GgmlType::tq2_0,
     {.embedding = GgmlType::q4_k}},
    {GgmlFileType::mxfp4_moe, "MXFP4_MOE", GgmlType::mxfp4,
     {.output = GgmlType::q8_0, .unless_expert = GgmlType::q8_0}},
    {GgmlFileType::nvfp4, "NVFP4", GgmlType::nvfp4},
    {GgmlFileType::q1_0, "Q1_0", GgmlType::q1_0},
    {GgmlFileType::q2_0, "Q2_0", GgmlType::q2_0,
     {.embedding = GgmlType::q4_k}},
}};
// clang-format on

namespace detail {

/// The row of the table for each number; numbers without a file type have the first.
[[nodiscard]] constexpr std::array<std::uint8_t, 42> index_file_types() {
    std::array<std::uint8_t, 42> rows{};
    for (std::size_t i = 0; i < ggml_file_type_table.size(); ++i) {
        rows[static_cast<std::size_t>(ggml_file_type_table[i].file_type)] = static_cast<std::uint8_t>(i);
    }
    return rows;
}
inline constexpr std::array<std::uint8_t, 42> file_type_rows = index_file_types();

/// Whether each file type has its row; one number more has none.
[[nodiscard]] constexpr bool has_each_file_type() {
    constexpr auto is_named = named_values<GgmlFileType, file_type_rows.size() + 1>();
    std::array<int, file_type_rows.size() + 1> found{};
    for (auto const& row : ggml_file_type_table) ++found[static_cast<std::size_t>(row.file_type)];
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i] != (is_named[i] ? 1 : 0)) return false;
    }
    return true;
}
static_assert(has_each_file_type(), "ggml_file_type_table has one row for each file type");

}  // namespace detail

[[nodiscard]] constexpr GgmlFileTypeTraits const& traits(GgmlFileType file_type) {
    return ggml_file_type_table[detail::file_type_rows[static_cast<std::size_t>(file_type)]];
}

/// The name that belongs to a file type: "Q4_K_M".
[[nodiscard]] constexpr std::string_view name_of(GgmlFileType file_type) { return traits(file_type).name; }

/// Finds a file type by its name in any case.
[[nodiscard]] constexpr Optional<GgmlFileType> parse_ggml_file_type(std::string_view text) {
    for (auto const& row : ggml_file_type_table) {
        if (detail::is_same_name(text, row.name)) return row.file_type;
    }
    return std::nullopt;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
