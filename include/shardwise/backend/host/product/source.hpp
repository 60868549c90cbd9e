// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Inputs that decode_source decodes at a time: the longest block of any format.
inline constexpr std::int64_t source_chunk = 256;

/// A value at a byte offset; checkpoints promise no alignment.
template <class T>
[[nodiscard]] inline T load_at(std::span<std::byte const> bytes, std::int64_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

/// Bytes of data and of scales that a source of these extents has.
struct SourceBytes {
    std::int64_t data = 0;
    std::int64_t scales = 0;
};

/// Errors  invalid_argument for negative extents or an int4 group below 1; shape_mismatch where blocks would be cut;
///         size_overflow
[[nodiscard]] inline Result<SourceBytes> source_bytes(WeightSource const& source) {
    auto const fail = [&](ErrorCode code, std::string_view reason, std::int64_t got) {
        return Error{code}.in("weight").at(name_of(source.format)).because(reason).got(got);
    };
    if (source.outputs < 0)
        return fail(ErrorCode::invalid_argument, "has a negative number of outputs", source.outputs);
    if (source.inputs < 0) return fail(ErrorCode::invalid_argument, "has a negative number of inputs", source.inputs);
    auto const& unit = traits(source.format);
    auto const block = row_multiple(source.format);
    if (source.inputs % block != 0) {
        return fail(ErrorCode::shape_mismatch, "its inputs are not whole blocks", source.inputs).multiple_of(block);
    }
    if (unit.scales == ScalePlace::group && source.group < 1) {
        return fail(ErrorCode::invalid_argument, "needs a group of at least one element per scale", source.group);
    }
    if (unit.block_bytes > 0 && !checked_multiply(source.inputs / unit.block_elements, unit.block_bytes)) {
        return fail(ErrorCode::size_overflow, "has rows of more bytes than 63 bits count", source.inputs);
    }
    auto const row_data = data_bytes(source.format, source.inputs);
    auto const row_scales = scale_bytes(source.format, source.inputs, source.group);
    auto const data = checked_multiply(row_data, source.outputs);
    auto const scales = checked_multiply(row_scales, source.outputs);
    if (!data || !scales) {
        return fail(ErrorCode::size_overflow, "has more bytes than 63 bits count", source.outputs);
    }
    return SourceBytes{*data, *scales};
}

/// Errors  those of source_bytes; shape_mismatch where data or scales do not have that size
[[nodiscard]] inline Result<> check_source(WeightSource const& source) {
    auto const needed = source_bytes(source);
    if (!needed) return needed.error();
    auto const data = static_cast<std::int64_t>(source.data.size());
    auto const scales = static_cast<std::int64_t>(source.scales.size());
    bool const is_data_wrong = data != needed->data;
    if (!is_data_wrong && scales == needed->scales) return {};
    return Error{ErrorCode::shape_mismatch}
        .in("weight")
        .at(name_of(source.format))
        .because(is_data_wrong ? "its data are not as many bytes as its extents ask for"
                               : "its scales are not as many bytes as its extents ask for")
        .got(is_data_wrong ? data : scales)
        .expected(is_data_wrong ? needed->data : needed->scales);
}

/// The values of `count` inputs of one row from `first` on, as the references in quant/ decode them.
///
/// Shapes  `first` is a multiple of source_chunk; first + count <= inputs, count a whole number of the format's blocks
inline void decode_source(WeightSource const& source, std::int64_t row, std::int64_t first, std::int64_t count,
                          float* out) {
    StoredRow const stored{source.data.data() + row * data_bytes(source.format, source.inputs),
                           source.scales.data() + row * scale_bytes(source.format, source.inputs, source.group),
                           source.group};
    traits(source.format).decode(stored, first, count, out);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
