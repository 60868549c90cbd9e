// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/quant/encode_legacy.hpp>
#include <shardwise/quant/encode_microscaling.hpp>
#include <shardwise/quant/ggml_type.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Whether encode_ggml knows a type: the floats, the legacy types and MXFP4.
[[nodiscard]] constexpr bool can_encode(GgmlType type) {
    switch (type) {
        case GgmlType::f32:
        case GgmlType::f16:
        case GgmlType::bf16:
        case GgmlType::q4_0:
        case GgmlType::q4_1:
        case GgmlType::q5_0:
        case GgmlType::q5_1:
        case GgmlType::q8_0:
        case GgmlType::mxfp4:
            return true;
        default:
            return false;
    }
}

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

}  // namespace detail

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
    switch (type) {
        case GgmlType::f32:
            detail::encode_each(&detail::encode_f32, values, blocks);
            break;
        case GgmlType::f16:
            detail::encode_each(&detail::encode_f16, values, blocks);
            break;
        case GgmlType::bf16:
            detail::encode_each(&detail::encode_bf16, values, blocks);
            break;
        case GgmlType::q4_0:
            detail::encode_each(&encode_q4_0, values, blocks);
            break;
        case GgmlType::q4_1:
            detail::encode_each(&encode_q4_1, values, blocks);
            break;
        case GgmlType::q5_0:
            detail::encode_each(&encode_q5_0, values, blocks);
            break;
        case GgmlType::q5_1:
            detail::encode_each(&encode_q5_1, values, blocks);
            break;
        case GgmlType::q8_0:
            detail::encode_each(&encode_q8_0, values, blocks);
            break;
        case GgmlType::mxfp4:
            detail::encode_each(&encode_mxfp4, values, blocks);
            break;
        default:
            break;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
