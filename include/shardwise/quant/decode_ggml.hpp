// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/quant/decode_iq4.hpp>
#include <shardwise/quant/decode_k.hpp>
#include <shardwise/quant/decode_legacy.hpp>
#include <shardwise/quant/decode_microscaling.hpp>
#include <shardwise/quant/decode_ternary.hpp>
#include <shardwise/quant/ggml_type.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Whether decode_ggml knows a type: all but the integers, F64 and the types with codebooks (IQ1, IQ2, IQ3).
[[nodiscard]] constexpr bool can_decode(GgmlType type) {
    switch (type) {
        case GgmlType::i8:
        case GgmlType::i16:
        case GgmlType::i32:
        case GgmlType::i64:
        case GgmlType::f64:
        case GgmlType::iq1_s:
        case GgmlType::iq1_m:
        case GgmlType::iq2_xxs:
        case GgmlType::iq2_xs:
        case GgmlType::iq2_s:
        case GgmlType::iq3_xxs:
        case GgmlType::iq3_s: return false;
        default: return true;
    }
}

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

}  // namespace detail

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
    switch (type) {
        case GgmlType::f32: detail::decode_each(&detail::decode_f32, blocks, out); break;
        case GgmlType::f16: detail::decode_each(&detail::decode_f16, blocks, out); break;
        case GgmlType::bf16: detail::decode_each(&detail::decode_bf16, blocks, out); break;
        case GgmlType::q4_0: detail::decode_each(&decode_q4_0, blocks, out); break;
        case GgmlType::q4_1: detail::decode_each(&decode_q4_1, blocks, out); break;
        case GgmlType::q5_0: detail::decode_each(&decode_q5_0, blocks, out); break;
        case GgmlType::q5_1: detail::decode_each(&decode_q5_1, blocks, out); break;
        case GgmlType::q8_0: detail::decode_each(&decode_q8_0, blocks, out); break;
        case GgmlType::q8_1: detail::decode_each(&decode_q8_1, blocks, out); break;
        case GgmlType::q2_k: detail::decode_each(&decode_q2_k, blocks, out); break;
        case GgmlType::q3_k: detail::decode_each(&decode_q3_k, blocks, out); break;
        case GgmlType::q4_k: detail::decode_each(&decode_q4_k, blocks, out); break;
        case GgmlType::q5_k: detail::decode_each(&decode_q5_k, blocks, out); break;
        case GgmlType::q6_k: detail::decode_each(&decode_q6_k, blocks, out); break;
        case GgmlType::q8_k: detail::decode_each(&decode_q8_k, blocks, out); break;
        case GgmlType::iq4_nl: detail::decode_each(&decode_iq4_nl, blocks, out); break;
        case GgmlType::iq4_xs: detail::decode_each(&decode_iq4_xs, blocks, out); break;
        case GgmlType::tq1_0: detail::decode_each(&decode_tq1_0, blocks, out); break;
        case GgmlType::tq2_0: detail::decode_each(&decode_tq2_0, blocks, out); break;
        case GgmlType::q1_0: detail::decode_each(&decode_q1_0, blocks, out); break;
        case GgmlType::q2_0: detail::decode_each(&decode_q2_0, blocks, out); break;
        case GgmlType::mxfp4: detail::decode_each(&decode_mxfp4, blocks, out); break;
        case GgmlType::nvfp4: detail::decode_each(&decode_nvfp4, blocks, out); break;
        default: break;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
