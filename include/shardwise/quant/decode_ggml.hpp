// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/quant/ggml_codec.hpp>
#include <shardwise/quant/ggml_type.hpp>

#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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
    detail::codec_of(type).decode(blocks, out);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
