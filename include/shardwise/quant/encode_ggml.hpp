// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/quant/encode_legacy.hpp>
#include <shardwise/quant/encode_microscaling.hpp>
#include <shardwise/quant/ggml_type.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

template <std::size_t Bytes, std::size_t Elements>
constexpr void encode_each(void (*encode)(std::span<float const, Elements>, std::span<std::uint8_t, Bytes>),
                           std::span<float const> values, std::span<std::uint8_t> blocks) {
    for (std::size_t i = 0; i < values.size() / Elements; ++i) {
        encode(values.subspan(i * Elements).template first<Elements>(),
               blocks.subspan(i * Bytes).template first<Bytes>());
    }
}

constexpr void encode_f32(std::span<float const, 1> value, std::span<std::uint8_t, 4> block) {
    auto const bits = std::bit_cast<std::uint32_t>(value[0]);
    store_u16(block, 0, static_cast<std::uint16_t>(bits & 0xFFFFU));
    store_u16(block, 2, static_cast<std::uint16_t>(bits >> 16U));
}
constexpr void encode_f16(std::span<float const, 1> value, std::span<std::uint8_t, 2> block) {
    store_u16(block, 0, to_f16(value[0]));
}
constexpr void encode_bf16(std::span<float const, 1> value, std::span<std::uint8_t, 2> block) {
    store_u16(block, 0, to_bf16(value[0]));
}

/// Encodes all blocks of a type.
template <auto encode>
constexpr void encode_blocks(std::span<float const> values, std::span<std::uint8_t> blocks) {
    encode_each(encode, values, blocks);
}

using GgmlEncode = void (*)(std::span<float const> values, std::span<std::uint8_t> blocks);

/// How each type is encoded; no function for those that are not.
struct GgmlEncoder {
    GgmlType type;
    GgmlEncode encode;
};
inline constexpr std::array<GgmlEncoder, 35> ggml_encoder_rows{{
    {GgmlType::f32, &encode_blocks<&encode_f32>},
    {GgmlType::f16, &encode_blocks<&encode_f16>},
    {GgmlType::q4_0, &encode_blocks<&encode_q4_0>},
    {GgmlType::q4_1, &encode_blocks<&encode_q4_1>},
    {GgmlType::q5_0, &encode_blocks<&encode_q5_0>},
    {GgmlType::q5_1, &encode_blocks<&encode_q5_1>},
    {GgmlType::q8_0, &encode_blocks<&encode_q8_0>},
    {GgmlType::q8_1, nullptr},
    {GgmlType::q2_k, nullptr},
    {GgmlType::q3_k, nullptr},
    {GgmlType::q4_k, nullptr},
    {GgmlType::q5_k, nullptr},
    {GgmlType::q6_k, nullptr},
    {GgmlType::q8_k, nullptr},
    {GgmlType::iq2_xxs, nullptr},
    {GgmlType::iq2_xs, nullptr},
    {GgmlType::iq3_xxs, nullptr},
    {GgmlType::iq1_s, nullptr},
    {GgmlType::iq4_nl, nullptr},
    {GgmlType::iq3_s, nullptr},
    {GgmlType::iq2_s, nullptr},
    {GgmlType::iq4_xs, nullptr},
    {GgmlType::i8, nullptr},
    {GgmlType::i16, nullptr},
    {GgmlType::i32, nullptr},
    {GgmlType::i64, nullptr},
    {GgmlType::f64, nullptr},
    {GgmlType::iq1_m, nullptr},
    {GgmlType::bf16, &encode_blocks<&encode_bf16>},
    {GgmlType::tq1_0, nullptr},
    {GgmlType::tq2_0, nullptr},
    {GgmlType::mxfp4, &encode_blocks<&encode_mxfp4>},
    {GgmlType::nvfp4, nullptr},
    {GgmlType::q1_0, nullptr},
    {GgmlType::q2_0, nullptr},
}};
inline constexpr auto ggml_encoders = by_ggml_type<GgmlEncode>(ggml_encoder_rows, &GgmlEncoder::encode);
static_assert(has_each_ggml_type(ggml_encoder_rows), "ggml_encoder_rows has one row for each GGUF type");

[[nodiscard]] constexpr GgmlEncode encoder_of(GgmlType type) { return ggml_encoders[static_cast<std::size_t>(type)]; }

}  // namespace detail

/// Whether encode_ggml knows a type: the floats, the legacy types and MXFP4.
[[nodiscard]] constexpr bool can_encode(GgmlType type) { return detail::encoder_of(type) != nullptr; }

/// Encodes whole blocks of a GGUF tensor, bit for bit as ggml does.
///
/// Shapes  `blocks` is values.size() / block elements times block bytes
/// Errors  unsupported for a type that can_encode refuses; shape_mismatch
[[nodiscard]] inline Result<> encode_ggml(GgmlType type, std::span<float const> values,
                                          std::span<std::uint8_t> blocks) {
    if (!can_encode(type)) {
        return Error{ErrorCode::unsupported}.at(name_of(type)).because("blocks of this type cannot be encoded");
    }
    auto const needed = ggml_row_bytes(type, static_cast<std::int64_t>(values.size()));
    if (!needed || *needed != static_cast<std::int64_t>(blocks.size())) {
        auto error = Error{ErrorCode::shape_mismatch}.at(name_of(type));
        error.because("the bytes are not those of the elements").got(static_cast<std::int64_t>(blocks.size()));
        return needed ? error.expected(*needed) : error;
    }
    detail::encoder_of(type)(values, blocks);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
