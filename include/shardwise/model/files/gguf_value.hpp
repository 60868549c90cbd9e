// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The type of a metadata value as GGUF numbers it.
///
/// Source  ggml docs/gguf.md, `gguf_metadata_value_type`
enum class GgufValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

/// The number of value types; greater numbers in a file are errors.
inline constexpr std::uint32_t gguf_value_types = 13;

/// The width of a scalar in the file; 0 for text and arrays.
///
/// Units  bytes
[[nodiscard]] constexpr std::uint32_t width_of(GgufValueType type) {
    constexpr std::array<std::uint32_t, gguf_value_types> widths{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return widths[static_cast<std::size_t>(type)];
}

/// One metadata value: a scalar, a text, or where an array lies in the file.
struct GgufValue {
    GgufValueType type = GgufValueType::u8;
    std::optional<std::int64_t> integer;  // integers and flags that 63 bits hold
    double real = 0.0;                    // any number
    std::string text;                     // at most its first 128 KiB

    GgufValueType element = GgufValueType::u8;  // arrays: the type of an element
    std::uint64_t count = 0;                    // elements of an array, bytes of a text
    std::uint64_t offset = 0;                   // where an array's first element or a text lies in the file
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
