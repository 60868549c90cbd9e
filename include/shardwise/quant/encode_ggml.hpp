// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/quant/ggml_codec.hpp>
#include <shardwise/quant/ggml_type.hpp>

#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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
    detail::codec_of(type).encode(values, blocks);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
