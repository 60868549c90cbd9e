// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/quant/decode_iq4.hpp>
#include <shardwise/quant/decode_k.hpp>
#include <shardwise/quant/decode_legacy.hpp>
#include <shardwise/quant/decode_microscaling.hpp>
#include <shardwise/quant/decode_ternary.hpp>
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

constexpr void decode_f32(std::span<std::uint8_t const, 4> block, std::span<float, 1> out) {
    out[0] = std::bit_cast<float>(load_u32(block, 0));
}
constexpr void decode_f16(std::span<std::uint8_t const, 2> block, std::span<float, 1> out) {
    out[0] = load_f16(block, 0);
}
constexpr void decode_bf16(std::span<std::uint8_t const, 2> block, std::span<float, 1> out) {
    out[0] = from_bf16(load_u16(block, 0));
}

/// Decodes all blocks of a type.
template <auto decode>
constexpr void decode_blocks(std::span<std::uint8_t const> blocks, std::span<float> out) {
    decode_each(decode, blocks, out);
}

using GgmlDecode = void (*)(std::span<std::uint8_t const> blocks, std::span<float> out);

/// How each type is decoded; no function for those that are not.
struct GgmlDecoder {
    GgmlType type;
    GgmlDecode decode;
};
inline constexpr std::array<GgmlDecoder, 35> ggml_decoder_rows{{
    {GgmlType::f32, &decode_blocks<&decode_f32>},
    {GgmlType::f16, &decode_blocks<&decode_f16>},
    {GgmlType::q4_0, &decode_blocks<&decode_q4_0>},
    {GgmlType::q4_1, &decode_blocks<&decode_q4_1>},
    {GgmlType::q5_0, &decode_blocks<&decode_q5_0>},
    {GgmlType::q5_1, &decode_blocks<&decode_q5_1>},
    {GgmlType::q8_0, &decode_blocks<&decode_q8_0>},
    {GgmlType::q8_1, &decode_blocks<&decode_q8_1>},
    {GgmlType::q2_k, &decode_blocks<&decode_q2_k>},
    {GgmlType::q3_k, &decode_blocks<&decode_q3_k>},
    {GgmlType::q4_k, &decode_blocks<&decode_q4_k>},
    {GgmlType::q5_k, &decode_blocks<&decode_q5_k>},
    {GgmlType::q6_k, &decode_blocks<&decode_q6_k>},
    {GgmlType::q8_k, &decode_blocks<&decode_q8_k>},
    {GgmlType::iq2_xxs, nullptr},
    {GgmlType::iq2_xs, nullptr},
    {GgmlType::iq3_xxs, nullptr},
    {GgmlType::iq1_s, nullptr},
    {GgmlType::iq4_nl, &decode_blocks<&decode_iq4_nl>},
    {GgmlType::iq3_s, nullptr},
    {GgmlType::iq2_s, nullptr},
    {GgmlType::iq4_xs, &decode_blocks<&decode_iq4_xs>},
    {GgmlType::i8, nullptr},
    {GgmlType::i16, nullptr},
    {GgmlType::i32, nullptr},
    {GgmlType::i64, nullptr},
    {GgmlType::f64, nullptr},
    {GgmlType::iq1_m, nullptr},
    {GgmlType::bf16, &decode_blocks<&decode_bf16>},
    {GgmlType::tq1_0, &decode_blocks<&decode_tq1_0>},
    {GgmlType::tq2_0, &decode_blocks<&decode_tq2_0>},
    {GgmlType::mxfp4, &decode_blocks<&decode_mxfp4>},
    {GgmlType::nvfp4, &decode_blocks<&decode_nvfp4>},
    {GgmlType::q1_0, &decode_blocks<&decode_q1_0>},
    {GgmlType::q2_0, &decode_blocks<&decode_q2_0>},
}};
inline constexpr auto ggml_decoders = by_ggml_type<GgmlDecode>(ggml_decoder_rows, &GgmlDecoder::decode);
static_assert(has_each_ggml_type(ggml_decoder_rows), "ggml_decoder_rows has one row for each GGUF type");

[[nodiscard]] constexpr GgmlDecode decoder_of(GgmlType type) { return ggml_decoders[static_cast<std::size_t>(type)]; }

}  // namespace detail

/// Whether decode_ggml knows a type: all but the integers, F64 and the types with codebooks (IQ1, IQ2, IQ3).
[[nodiscard]] constexpr bool can_decode(GgmlType type) { return detail::decoder_of(type) != nullptr; }

/// Decodes whole blocks of a GGUF tensor: the reference that faster kernels are compared with, bit for bit.
///
/// Shapes  `blocks` is out.size() / block elements times block bytes
/// Errors  unsupported for a type that can_decode refuses; shape_mismatch
[[nodiscard]] constexpr Result<> decode_ggml(GgmlType type, std::span<std::uint8_t const> blocks,
                                             std::span<float> out) {
    if (!can_decode(type)) {
        return Error{ErrorCode::unsupported}.at(name_of(type)).because("blocks of this type cannot be decoded");
    }
    auto const elements = static_cast<std::int64_t>(out.size());
    auto const needed = ggml_row_bytes(type, elements);
    if (!needed || *needed != static_cast<std::int64_t>(blocks.size())) {
        auto error = Error{ErrorCode::shape_mismatch}.at(name_of(type));
        error.because("the bytes are not those of the elements").got(static_cast<std::int64_t>(blocks.size()));
        return needed ? error.expected(*needed) : error;
    }
    detail::decoder_of(type)(blocks, out);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
