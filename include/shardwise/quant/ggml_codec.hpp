// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/decode_iq4.hpp>
#include <shardwise/quant/decode_k.hpp>
#include <shardwise/quant/decode_legacy.hpp>
#include <shardwise/quant/decode_microscaling.hpp>
#include <shardwise/quant/decode_ternary.hpp>
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
constexpr void decode_each(void (*decode)(std::span<std::uint8_t const, Bytes>, std::span<float, Elements>),
                           std::span<std::uint8_t const> blocks, std::span<float> out) {
    for (std::size_t i = 0; i < out.size() / Elements; ++i) {
        decode(blocks.subspan(i * Bytes).template first<Bytes>(), out.subspan(i * Elements).template first<Elements>());
    }
}

template <std::size_t Bytes, std::size_t Elements>
constexpr void encode_each(void (*encode)(std::span<float const, Elements>, std::span<std::uint8_t, Bytes>),
                           std::span<float const> values, std::span<std::uint8_t> blocks) {
    for (std::size_t i = 0; i < values.size() / Elements; ++i) {
        encode(values.subspan(i * Elements).template first<Elements>(),
               blocks.subspan(i * Bytes).template first<Bytes>());
    }
}

constexpr void decode_f32(std::span<std::uint8_t const, 4> block, std::span<float, 1> out) {
    out[0] = std::bit_cast<float>(load_u32(block, 0));
}
constexpr void decode_f16(std::span<std::uint8_t const, 2> block, std::span<float, 1> out) {
    out[0] = load_f16(block, 0);
}
constexpr void decode_bf16(std::span<std::uint8_t const, 2> block, std::span<float, 1> out) {
    out[0] = from_bf16(load_u16(block, 0));
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

/// Decodes all blocks of a type.
template <auto decode>
constexpr void decode_blocks(std::span<std::uint8_t const> blocks, std::span<float> out) {
    decode_each(decode, blocks, out);
}

/// Encodes all blocks of a type.
template <auto encode>
constexpr void encode_blocks(std::span<float const> values, std::span<std::uint8_t> blocks) {
    encode_each(encode, values, blocks);
}

using GgmlDecode = void (*)(std::span<std::uint8_t const> blocks, std::span<float> out);
using GgmlEncode = void (*)(std::span<float const> values, std::span<std::uint8_t> blocks);

/// How the blocks of a type are decoded and encoded; no function where they are not.
struct GgmlCodec {
    GgmlType type;
    GgmlDecode decode = nullptr;
    GgmlEncode encode = nullptr;
};

/// Every type that files may hold, in the order of their numbers.
inline constexpr std::array<GgmlCodec, 35> ggml_codec_table{{
    {GgmlType::f32, &decode_blocks<&decode_f32>, &encode_blocks<&encode_f32>},
    {GgmlType::f16, &decode_blocks<&decode_f16>, &encode_blocks<&encode_f16>},
    {GgmlType::q4_0, &decode_blocks<&decode_q4_0>, &encode_blocks<&encode_q4_0>},
    {GgmlType::q4_1, &decode_blocks<&decode_q4_1>, &encode_blocks<&encode_q4_1>},
    {GgmlType::q5_0, &decode_blocks<&decode_q5_0>, &encode_blocks<&encode_q5_0>},
    {GgmlType::q5_1, &decode_blocks<&decode_q5_1>, &encode_blocks<&encode_q5_1>},
    {GgmlType::q8_0, &decode_blocks<&decode_q8_0>, &encode_blocks<&encode_q8_0>},
    {GgmlType::q8_1, &decode_blocks<&decode_q8_1>},
    {GgmlType::q2_k, &decode_blocks<&decode_q2_k>},
    {GgmlType::q3_k, &decode_blocks<&decode_q3_k>},
    {GgmlType::q4_k, &decode_blocks<&decode_q4_k>},
    {GgmlType::q5_k, &decode_blocks<&decode_q5_k>},
    {GgmlType::q6_k, &decode_blocks<&decode_q6_k>},
    {GgmlType::q8_k, &decode_blocks<&decode_q8_k>},
    {GgmlType::iq2_xxs},
    {GgmlType::iq2_xs},
    {GgmlType::iq3_xxs},
    {GgmlType::iq1_s},
    {GgmlType::iq4_nl, &decode_blocks<&decode_iq4_nl>},
    {GgmlType::iq3_s},
    {GgmlType::iq2_s},
    {GgmlType::iq4_xs, &decode_blocks<&decode_iq4_xs>},
    {GgmlType::i8},
    {GgmlType::i16},
    {GgmlType::i32},
    {GgmlType::i64},
    {GgmlType::f64},
    {GgmlType::iq1_m},
    {GgmlType::bf16, &decode_blocks<&decode_bf16>, &encode_blocks<&encode_bf16>},
    {GgmlType::tq1_0, &decode_blocks<&decode_tq1_0>},
    {GgmlType::tq2_0, &decode_blocks<&decode_tq2_0>},
    {GgmlType::mxfp4, &decode_blocks<&decode_mxfp4>, &encode_blocks<&encode_mxfp4>},
    {GgmlType::nvfp4, &decode_blocks<&decode_nvfp4>},
    {GgmlType::q1_0, &decode_blocks<&decode_q1_0>},
    {GgmlType::q2_0, &decode_blocks<&decode_q2_0>},
}};
static_assert(has_each_ggml_type(ggml_codec_table), "ggml_codec_table has one row for each GGUF type");

/// The row of each number; the numbers of removed types have no functions.
[[nodiscard]] constexpr std::array<GgmlCodec, ggml_type_table.size()> codecs_by_number() {
    std::array<GgmlCodec, ggml_type_table.size()> out{};
    for (auto const& row : ggml_codec_table) out[static_cast<std::size_t>(row.type)] = row;
    return out;
}
inline constexpr auto ggml_codecs = codecs_by_number();

[[nodiscard]] constexpr GgmlCodec const& codec_of(GgmlType type) { return ggml_codecs[static_cast<std::size_t>(type)]; }

}  // namespace detail

/// Whether decode_ggml knows a type: all but the integers, F64 and the types with codebooks (IQ1, IQ2, IQ3).
[[nodiscard]] constexpr bool can_decode(GgmlType type) { return detail::codec_of(type).decode != nullptr; }

/// Whether encode_ggml knows a type: the floats, the legacy types and MXFP4.
[[nodiscard]] constexpr bool can_encode(GgmlType type) { return detail::codec_of(type).encode != nullptr; }

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
