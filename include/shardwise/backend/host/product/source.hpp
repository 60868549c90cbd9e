// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/decode_bitsandbytes.hpp>
#include <shardwise/quant/decode_k.hpp>
#include <shardwise/quant/decode_legacy.hpp>
#include <shardwise/quant/decode_microscaling.hpp>
#include <shardwise/quant/float_bits.hpp>

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
    auto const block = source.format == WeightFormat::int4 ? 1 : traits(source.format).block_elements;
    if (source.inputs % block != 0) {
        return fail(ErrorCode::shape_mismatch, "its inputs are not whole blocks", source.inputs).multiple_of(block);
    }
    if (source.format == WeightFormat::int4 && source.group < 1) {
        return fail(ErrorCode::invalid_argument, "needs a group of at least one element per scale", source.group);
    }
    std::int64_t row_data = 0;
    std::int64_t row_scales = 0;
    Optional<std::int64_t> stored;
    switch (source.format) {
        case WeightFormat::int8:
            row_data = source.inputs;
            row_scales = 4;
            break;
        case WeightFormat::int4:
            row_data = ceil_divide(source.inputs, 2);
            row_scales = 2 * ceil_divide(source.inputs, source.group);
            break;
        case WeightFormat::nf4:
            row_data = source.inputs / 2;
            row_scales = source.inputs / 64 * 4;
            break;
        case WeightFormat::mxfp4:
            row_data = source.inputs / 2;
            row_scales = source.inputs / 32;
            break;
        case WeightFormat::f32: case WeightFormat::bf16: case WeightFormat::f16: case WeightFormat::q4_0:
        case WeightFormat::q4_1: case WeightFormat::q5_0: case WeightFormat::q5_1: case WeightFormat::q8_0:
        case WeightFormat::q4_k: case WeightFormat::q5_k: case WeightFormat::q6_k:
            stored = checked_multiply(source.inputs / block, traits(source.format).block_bytes);
            if (!stored)
                return fail(ErrorCode::size_overflow, "has rows of more bytes than 63 bits count", source.inputs);
            row_data = *stored;
    }
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

template <std::size_t bytes, std::size_t elements>
void decode_blocks(void (*decode)(std::span<std::uint8_t const, bytes>, std::span<float, elements>),
                   std::byte const* blocks, std::int64_t count, float* out) {
    for (std::int64_t done = 0; done < count; done += static_cast<std::int64_t>(elements)) {
        auto const* const block = reinterpret_cast<std::uint8_t const*>(blocks) +
                                  done / static_cast<std::int64_t>(elements) * static_cast<std::int64_t>(bytes);
        decode(std::span<std::uint8_t const, bytes>(block, bytes), std::span<float, elements>(out + done, elements));
    }
}

/// The values of `count` inputs of one row from `first` on, as the references in quant/ decode them.
///
/// Shapes  `first` is a multiple of source_chunk; first + count <= inputs, count a whole number of the format's blocks
inline void decode_source(WeightSource const& source, std::int64_t row, std::int64_t first, std::int64_t count,
                          float* out) {
    auto const inputs = source.inputs;
    auto const at = row * inputs + first;
    auto const traits_of = traits(source.format);
    auto const* const blocks = source.data.data() + at / traits_of.block_elements * traits_of.block_bytes;
    auto const nibble = [&](std::int64_t byte, bool is_high) {
        return (std::to_integer<unsigned>(source.data[static_cast<std::size_t>(byte)]) >> (is_high ? 4U : 0U)) & 15U;
    };
    switch (source.format) {
        case WeightFormat::f32:
            if (count > 0) std::memcpy(out, blocks, static_cast<std::size_t>(count) * sizeof(float));
            return;
        case WeightFormat::bf16:
            for (std::int64_t i = 0; i < count; ++i) {
                out[i] = from_bf16(load_at<std::uint16_t>(source.data, (at + i) * 2));
            }
            return;
        case WeightFormat::f16:
            for (std::int64_t i = 0; i < count; ++i)
                out[i] = from_f16(load_at<std::uint16_t>(source.data, (at + i) * 2));
            return;
        case WeightFormat::int8: {
            auto const scale = load_at<float>(source.scales, row * 4);
            for (std::int64_t i = 0; i < count; ++i) {
                out[i] = scale * static_cast<float>(load_at<std::int8_t>(source.data, at + i));
            }
            return;
        }
        case WeightFormat::int4: {
            auto const row_bytes = ceil_divide(inputs, 2);
            auto const groups = ceil_divide(inputs, source.group);
            for (std::int64_t i = 0; i < count; ++i) {
                auto const k = first + i;
                auto const q = static_cast<int>(nibble(row * row_bytes + k / 2, k % 2 != 0)) - 8;
                auto const scale = load_at<std::uint16_t>(source.scales, (row * groups + k / source.group) * 2);
                out[i] = from_f16(scale) * static_cast<float>(q);
            }
            return;
        }
        case WeightFormat::nf4:
            for (std::int64_t i = 0; i < count; ++i) {
                auto const q = nibble((at + i) / 2, (at + i) % 2 == 0);
                out[i] = nf4_values[q] * load_at<float>(source.scales, (at + i) / 64 * 4);
            }
            return;
        case WeightFormat::mxfp4:
            for (std::int64_t i = 0; i < count; ++i) {
                auto const q = static_cast<std::uint8_t>(nibble((at + i) / 2, (at + i) % 2 != 0));
                out[i] = from_e8m0(load_at<std::uint8_t>(source.scales, (at + i) / 32)) * from_e2m1(q);
            }
            return;
        case WeightFormat::q4_0:
            return decode_blocks(&decode_q4_0, blocks, count, out);
        case WeightFormat::q4_1:
            return decode_blocks(&decode_q4_1, blocks, count, out);
        case WeightFormat::q5_0:
            return decode_blocks(&decode_q5_0, blocks, count, out);
        case WeightFormat::q5_1:
            return decode_blocks(&decode_q5_1, blocks, count, out);
        case WeightFormat::q8_0:
            return decode_blocks(&decode_q8_0, blocks, count, out);
        case WeightFormat::q4_k:
            return decode_blocks(&decode_q4_k, blocks, count, out);
        case WeightFormat::q5_k:
            return decode_blocks(&decode_q5_k, blocks, count, out);
        case WeightFormat::q6_k:
            return decode_blocks(&decode_q6_k, blocks, count, out);
    }
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
