// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/enumerator_count.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/executor/packed_weight.hpp>
#include <shardwise/quant/decode_ggml.hpp>
#include <shardwise/quant/float_bits.hpp>
#include <shardwise/quant/half_bits.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Inputs [first, first + count) of one row of a GGUF weight.
inline void decode_ggml_row(PackedWeight const& weight, std::int64_t row, std::int64_t first, std::int64_t count,
                            float* out) {
    auto const block = std::int64_t{traits(weight.type).block_elements};
    auto const row_bytes = weight.inputs / block * traits(weight.type).block_bytes;
    std::array<float, 256> values;
    for (auto at = first / block * block; at < first + count; at += block) {
        auto const* const bytes = reinterpret_cast<std::uint8_t const*>(weight.data.data()) + row * row_bytes +
                                  at / block * traits(weight.type).block_bytes;
        (void)decode_ggml(weight.type, {bytes, traits(weight.type).block_bytes},
                          {values.data(), static_cast<std::size_t>(block)});
        for (auto i = std::max(at, first); i < std::min(at + block, first + count); ++i)
            out[i - first] = values[static_cast<std::size_t>(i - at)];
    }
}

/// The same of deepseek's kv_b, whose rows are each head's keys and then its values.
///
/// Source  llama.cpp convert_hf_to_gguf.py (DeepseekV2Model.modify_tensors)
inline void decode_kv_row(PackedWeight const& weight, std::int64_t row, UnitRange columns, float* out) {
    auto const head = row / (weight.key_rows + weight.value_rows);
    auto const own = row % (weight.key_rows + weight.value_rows);
    PackedWeight half;
    if (own >= weight.key_rows) {
        half.type = weight.value_type;
        half.data = weight.scales;
        half.inputs = weight.inputs;
        return decode_ggml_row(half, head * weight.value_rows + own - weight.key_rows, columns.begin, columns.size(),
                               out);
    }
    half.type = weight.type;
    half.data = weight.data;
    half.inputs = weight.key_rows;
    for (auto input = columns.begin; input < columns.end; ++input)
        decode_ggml_row(half, head * weight.inputs + input, own, 1, out + input - columns.begin);
}

// Decode some rows and inputs, as those compute them who write the format, bit for bit: out [rows, columns].

inline void decode_ggml_rows(PackedWeight const& weight, UnitRange rows, UnitRange columns, float* out) {
    for (auto row = rows.begin; row < rows.end; ++row, out += columns.size())
        decode_ggml_row(weight, row, columns.begin, columns.size(), out);
}

inline void decode_kv_rows(PackedWeight const& weight, UnitRange rows, UnitRange columns, float* out) {
    for (auto row = rows.begin; row < rows.end; ++row, out += columns.size()) decode_kv_row(weight, row, columns, out);
}

/// gptq, awq, integers.
template <auto element_at>
void decode_grouped(PackedWeight const& weight, UnitRange rows, UnitRange columns, float* out) {
    for (auto input = columns.begin; input < columns.end; ++input) {
        for (auto output = rows.begin; output < rows.end; ++output) {
            auto const element = element_at(weight, output, input);
            out[(output - rows.begin) * columns.size() + input - columns.begin] =
                scale_at(weight.scales, weight.scale_dtype, element.scale) * static_cast<float>(element.value);
        }
    }
}

inline void decode_bnb_4bit_rows(PackedWeight const& weight, UnitRange rows, UnitRange columns, float* out) {
    for (auto row = rows.begin; row < rows.end; ++row) {
        for (auto input = columns.begin; input < columns.end; ++input) {
            auto const at = row * weight.inputs + input;
            auto const byte = std::to_integer<unsigned>(weight.data[static_cast<std::size_t>(at / 2)]);
            *out++ = weight.code[(at % 2 == 0 ? byte >> 4U : byte) & 15U] * absmax_at(weight, at / 64);
        }
    }
}

/// bitsandbytes' float of 1 / 127.
inline constexpr float bnb_int8_reciprocal = 7.874015718698502e-3F;

inline void decode_bnb_int8_rows(PackedWeight const& weight, UnitRange rows, UnitRange columns, float* out) {
    for (auto row = rows.begin; row < rows.end; ++row) {
        for (auto input = columns.begin; input < columns.end; ++input) {
            *out++ = static_cast<float>(load_at<std::int8_t>(weight.data, row * weight.inputs + input)) *
                     load_at<float>(weight.scales, row * 4) * bnb_int8_reciprocal;
        }
    }
}

inline void decode_fp8_rows(PackedWeight const& weight, UnitRange rows, UnitRange columns, float* out) {
    auto const across = weight.block_columns > 0 ? ceil_divide(weight.inputs, weight.block_columns) : 0;
    for (auto row = rows.begin; row < rows.end; ++row) {
        for (auto input = columns.begin; input < columns.end; ++input) {
            auto const block = row / weight.block_rows * across + input / weight.block_columns;
            *out++ = from_e4m3(load_at<std::uint8_t>(weight.data, row * weight.inputs + input)) *
                     scale_at(weight.scales, weight.scale_dtype, block);
        }
    }
}

/// 32 elements of GGUF's MXFP4 (a scale, halves of bytes 16 apart) in the order of WeightSource.
inline void repack_mxfp4(std::byte const* block, std::byte* data, std::byte* scale) {
    *scale = block[0];
    for (std::size_t i = 0; i < 16; ++i) {
        auto const nibble = [&](std::size_t k) {
            auto const byte = std::to_integer<unsigned>(block[1 + k % 16]);
            auto const code = (k < 16 ? byte : byte >> 4U) & 15U;
            // GGUF has no -0.
            return code == 8 ? 0U : code;
        };
        data[i] = static_cast<std::byte>(nibble(2 * i) | nibble(2 * i + 1) << 4U);
    }
}

/// Writes a scale as fp16: exactly, but for scales of bf16 below 2^-14, which are rounded by at most 2^-25.
inline void put_half(PackedWeight const& weight, std::int64_t scale, std::byte* to) {
    if (weight.scale_dtype == Dtype::f16) {
        std::memcpy(to, weight.scales.data() + scale * 2, 2);
        return;
    }
    auto const half = to_f16(scale_at(weight.scales, weight.scale_dtype, scale));
    std::memcpy(to, &half, 2);
}

/// Writes some inputs of a gptq, awq or integers' row as blocks of Q5_0 or Q8_0. False where one is out of their range.
template <auto element_at>
bool repack_blocks(PackedWeight const& weight, WeightFormat format, std::int64_t row, UnitRange columns,
                   std::byte* data) {
    bool const is_q5 = format == WeightFormat::q5_0;
    std::int64_t const most = is_q5 ? 16 : 128;
    bool fits = true;
    for (auto first = columns.begin; first < columns.end; first += 32, data += traits(format).block_bytes) {
        std::uint32_t high = 0;
        if (is_q5) std::memset(data + 6, 0, 16);
        for (std::int64_t i = 0; i < 32; ++i) {
            auto const element = element_at(weight, row, first + i);
            if (i == 0) put_half(weight, element.scale, data);
            fits = fits && element.value >= -most && element.value < most;
            if (!is_q5) {
                data[2 + i] = static_cast<std::byte>(element.value);
                continue;
            }
            auto const q = static_cast<unsigned>(element.value + most) & 31U;
            data[6 + i % 16] |= static_cast<std::byte>((q & 15U) << (i < 16 ? 0U : 4U));
            high |= (q >> 4U) << static_cast<unsigned>(i);
        }
        for (unsigned i = 0; is_q5 && i < 4; ++i) data[2 + i] = static_cast<std::byte>(high >> (8U * i));
    }
    return fits;
}

// Write some inputs of one row in the format of `target` without decoding them: the same values. False where the format cannot
// express one. Columns begin and end at whole blocks; data and scales are those of the row in `target`.

[[nodiscard]] inline bool repack_ggml(PackedWeight const& weight, WeightSource const& target, std::int64_t row,
                                      UnitRange columns, std::byte* data, std::byte* scales) {
    auto const& type = traits(weight.type);
    auto const count = columns.size();
    auto const first = row * weight.inputs + columns.begin;
    auto const* const blocks = weight.data.data() + first / type.block_elements * type.block_bytes;
    if (traits(target.format).ggml == weight.type) {
        std::memcpy(data, blocks, static_cast<std::size_t>(count / type.block_elements * type.block_bytes));
        return true;
    }
    SHARDWISE_ASSERT(target.format == WeightFormat::mxfp4);  // the only one of other order
    for (std::int64_t i = 0; i < count / 32; ++i)
        repack_mxfp4(blocks + i * type.block_bytes, data + i * 16, scales + i);
    return true;
}

[[nodiscard]] inline bool repack_bnb_4bit(PackedWeight const& weight, WeightSource const&, std::int64_t row,
                                          UnitRange columns, std::byte* data, std::byte* scales) {
    auto const first = row * weight.inputs + columns.begin;
    std::memcpy(data, weight.data.data() + first / 2, static_cast<std::size_t>(columns.size() / 2));
    for (std::int64_t i = 0; i < columns.size() / 64; ++i) {
        auto const absmax = absmax_at(weight, first / 64 + i);
        std::memcpy(scales + 4 * i, &absmax, sizeof absmax);
    }
    return true;
}

[[nodiscard]] inline bool repack_bnb_int8(PackedWeight const& weight, WeightSource const&, std::int64_t row,
                                          UnitRange columns, std::byte* data, std::byte* scales) {
    std::memcpy(data, weight.data.data() + row * weight.inputs + columns.begin,
                static_cast<std::size_t>(columns.size()));
    auto const scale = load_at<float>(weight.scales, row * 4) * bnb_int8_reciprocal;
    std::memcpy(scales, &scale, sizeof scale);
    return true;
}

/// gptq, awq: integers of one sign-less scale, int4 with the zero point in the middle, else blocks.
template <auto element_at>
[[nodiscard]] bool repack_grouped(PackedWeight const& weight, WeightSource const& target, std::int64_t row,
                                  UnitRange columns, std::byte* data, std::byte* scales) {
    if (target.format != WeightFormat::int4)
        return repack_blocks<element_at>(weight, target.format, row, columns, data);
    auto const count = columns.size();
    bool fits = true;
    std::memset(data, 0, static_cast<std::size_t>(ceil_divide(count, 2)));
    for (std::int64_t i = 0; i < count; ++i) {
        auto const element = element_at(weight, row, columns.begin + i);
        fits = fits && element.value >= -8 && element.value <= 7;
        auto const q = static_cast<unsigned>(element.value + 8) & 15U;
        data[i / 2] |= static_cast<std::byte>(q << (i % 2 == 0 ? 0U : 4U));
        if (i % target.group == 0) put_half(weight, element.scale, scales + i / target.group * 2);
    }
    return fits;
}

/// integers: the same, or bytes with the row's one scale.
[[nodiscard]] inline bool repack_integers(PackedWeight const& weight, WeightSource const& target, std::int64_t row,
                                          UnitRange columns, std::byte* data, std::byte* scales) {
    if (target.format != WeightFormat::int8)
        return repack_grouped<&integer_at>(weight, target, row, columns, data, scales);
    for (std::int64_t i = 0; i < columns.size(); ++i)
        data[i] = static_cast<std::byte>(integer_at(weight, row, columns.begin + i).value);
    auto const scale = scale_at(weight.scales, weight.scale_dtype, weight.row_scales > 0 ? row : 0);
    std::memcpy(scales, &scale, sizeof scale);
    return true;
}

/// What is done with a form: decoded always, written in a format of products where there is a function for it.
struct PackedFormTraits {
    PackedForm form;
    void (*decode)(PackedWeight const& weight, UnitRange rows, UnitRange columns, float* out);
    bool (*repack)(PackedWeight const& weight, WeightSource const& target, std::int64_t row, UnitRange columns,
                   std::byte* data, std::byte* scales) = nullptr;
};

/// Every form in the order of the enumeration.
inline constexpr std::array<PackedFormTraits, 8> packed_form_table{{
    {PackedForm::ggml, &decode_ggml_rows, &repack_ggml},
    {PackedForm::bnb_4bit, &decode_bnb_4bit_rows, &repack_bnb_4bit},
    {PackedForm::bnb_int8, &decode_bnb_int8_rows, &repack_bnb_int8},
    {PackedForm::gptq, &decode_grouped<&gptq_at>, &repack_grouped<&gptq_at>},
    {PackedForm::awq, &decode_grouped<&awq_at>, &repack_grouped<&awq_at>},
    {PackedForm::fp8, &decode_fp8_rows},
    {PackedForm::integers, &decode_grouped<&integer_at>, &repack_integers},
    {PackedForm::kv_heads, &decode_kv_rows},
}};

[[nodiscard]] constexpr bool has_each_packed_form() {
    for (std::size_t i = 0; i < packed_form_table.size(); ++i) {
        if (static_cast<std::size_t>(packed_form_table[i].form) != i) return false;
    }
    return packed_form_table.size() == enumerator_count<PackedForm>();
}
static_assert(has_each_packed_form(), "packed_form_table has one row for each form, in their order");

[[nodiscard]] constexpr PackedFormTraits const& traits(PackedForm form) {
    return packed_form_table[static_cast<std::size_t>(form)];
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
