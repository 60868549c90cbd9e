// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/optional.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The element type of a dense tensor. Block formats (GGUF types, NF4, ...) live in quant/.
enum class Dtype : std::uint8_t {
    f64, f32, f16, bf16, f8_e4m3, f8_e5m2, f8_e8m0, f6_e2m3, f6_e3m2, f4,
    i64, i32, i16, i8, i4, i2, u64, u32, u16, u8, u4, boolean, c64, c128,
    // What some checkpoints and models hold and nothing here computes with: they have a name and a size.
    f8_e4m3fnuz, f8_e5m2fnuz, c32, quint8, qint8, qint32, quint4x2, quint2x4, bits8, bits16, bits1x8, bits2x4, bits4x2,
};

/// What is known of a dtype: names in torch, safetensors and short, and its width.
struct DtypeTraits {
    Dtype dtype;
    std::string_view torch_name;
    std::string_view safetensors_name;
    std::string_view short_name;
    std::uint8_t bits;
    bool is_floating;
    /// Whether a safetensors file may hold it. Others have the name that it would have there.
    bool is_in_safetensors;
};

/// Every dtype in the order of the enumeration.
///
/// Source  https://docs.pytorch.org/docs/stable/tensor_attributes.html; safetensors 0.8 `tensor.rs` (Dtype); torch's
///         quint4x2 packs two elements into a byte, quint2x4 four, an element of bits1x8, bits2x4 and bits4x2 is a byte
inline constexpr std::array<DtypeTraits, 37> dtype_table{{
    {Dtype::f64, "float64", "F64", "fp64", 64, true, true},
    {Dtype::f32, "float32", "F32", "fp32", 32, true, true},
    {Dtype::f16, "float16", "F16", "fp16", 16, true, true},
    {Dtype::bf16, "bfloat16", "BF16", "bf16", 16, true, true},
    {Dtype::f8_e4m3, "float8_e4m3fn", "F8_E4M3", "fp8", 8, true, true},
    {Dtype::f8_e5m2, "float8_e5m2", "F8_E5M2", "fp8_e5m2", 8, true, true},
    {Dtype::f8_e8m0, "float8_e8m0fnu", "F8_E8M0", "fp8_e8m0", 8, true, true},
    {Dtype::f6_e2m3, "float6_e2m3fn", "F6_E2M3", "fp6_e2m3", 6, true, true},
    {Dtype::f6_e3m2, "float6_e3m2fn", "F6_E3M2", "fp6_e3m2", 6, true, true},
    {Dtype::f4, "float4_e2m1fn_x2", "F4", "fp4", 4, true, true},
    {Dtype::i64, "int64", "I64", "int64", 64, false, true},
    {Dtype::i32, "int32", "I32", "int32", 32, false, true},
    {Dtype::i16, "int16", "I16", "int16", 16, false, true},
    {Dtype::i8, "int8", "I8", "int8", 8, false, true},
    {Dtype::i4, "int4", "I4", "int4", 4, false, false},
    {Dtype::i2, "int2", "I2", "int2", 2, false, false},
    {Dtype::u64, "uint64", "U64", "uint64", 64, false, true},
    {Dtype::u32, "uint32", "U32", "uint32", 32, false, true},
    {Dtype::u16, "uint16", "U16", "uint16", 16, false, true},
    {Dtype::u8, "uint8", "U8", "uint8", 8, false, true},
    {Dtype::u4, "uint4", "U4", "uint4", 4, false, false},
    {Dtype::boolean, "bool", "BOOL", "bool", 8, false, true},
    {Dtype::c64, "complex64", "C64", "complex64", 64, true, true},
    {Dtype::c128, "complex128", "C128", "complex128", 128, true, false},
    {Dtype::f8_e4m3fnuz, "float8_e4m3fnuz", "F8_E4M3FNUZ", "fp8_e4m3fnuz", 8, true, true},
    {Dtype::f8_e5m2fnuz, "float8_e5m2fnuz", "F8_E5M2FNUZ", "fp8_e5m2fnuz", 8, true, true},
    {Dtype::c32, "complex32", "C32", "complex32", 32, true, false},
    {Dtype::quint8, "quint8", "QUINT8", "quint8", 8, false, false},
    {Dtype::qint8, "qint8", "QINT8", "qint8", 8, false, false},
    {Dtype::qint32, "qint32", "QINT32", "qint32", 32, false, false},
    {Dtype::quint4x2, "quint4x2", "QUINT4X2", "quint4x2", 4, false, false},
    {Dtype::quint2x4, "quint2x4", "QUINT2X4", "quint2x4", 2, false, false},
    {Dtype::bits8, "bits8", "BITS8", "bits8", 8, false, false},
    {Dtype::bits16, "bits16", "BITS16", "bits16", 16, false, false},
    {Dtype::bits1x8, "bits1x8", "BITS1X8", "bits1x8", 8, false, false},
    {Dtype::bits2x4, "bits2x4", "BITS2X4", "bits2x4", 8, false, false},
    {Dtype::bits4x2, "bits4x2", "BITS4X2", "bits4x2", 8, false, false},
}};

[[nodiscard]] constexpr DtypeTraits const& traits(Dtype dtype) {
    return dtype_table[static_cast<std::size_t>(dtype)];
}

/// The width of one stored element. A stored bool takes a byte (accelerate prices it at a bit: placement/dialect).
///
/// Units  bits
[[nodiscard]] constexpr std::int64_t bits(Dtype dtype) { return traits(dtype).bits; }

/// Bytes of `count` packed elements, rounded up to whole bytes; nothing where that overflows.
///
/// Units  bytes
[[nodiscard]] constexpr Optional<std::int64_t> storage_bytes(Dtype dtype, std::int64_t count) {
    auto const width = bits(dtype);
    if (width % 8 == 0) return checked_multiply(count, width / 8);
    auto const total = checked_multiply(count, width);
    if (!total) return std::nullopt;
    return ceil_divide(*total, 8);
}

/// Finds a dtype by any of its names, in any case, with or without "torch."; also `float`, `half`, `double`, `f32`...
[[nodiscard]] constexpr Optional<Dtype> parse_dtype(std::string_view text) {
    constexpr auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    constexpr auto same = [lower](std::string_view a, std::string_view b) {
        if (a.size() != b.size()) return false;
        for (std::size_t i = 0; i < a.size(); ++i) {
            if (lower(a[i]) != lower(b[i])) return false;
        }
        return true;
    };
    if (text.size() > 6 && same(text.substr(0, 6), "torch.")) text.remove_prefix(6);
    for (auto const& row : dtype_table) {
        if (same(text, row.torch_name) || same(text, row.safetensors_name) || same(text, row.short_name)) {
            return row.dtype;
        }
    }
    struct Alias {
        std::string_view name;
        Dtype dtype;
    };
    constexpr std::array<Alias, 8> aliases{{{"float", Dtype::f32},
                                            {"half", Dtype::f16},
                                            {"double", Dtype::f64},
                                            {"long", Dtype::i64},
                                            {"fp8_e4m3", Dtype::f8_e4m3},
                                            {"float8_e4m3", Dtype::f8_e4m3},
                                            {"fp4_e2m1", Dtype::f4},
                                            {"float4_e2m1", Dtype::f4}}};
    for (auto const& alias : aliases) {
        if (same(text, alias.name)) return alias.dtype;
    }
    return std::nullopt;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
