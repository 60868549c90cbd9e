// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/quant/decode_microscaling.hpp>
#include <shardwise/quant/encode_bitsandbytes.hpp>
#include <shardwise/quant/encode_int4.hpp>
#include <shardwise/quant/encode_int8.hpp>
#include <shardwise/quant/encode_microscaling.hpp>
#include <shardwise/quant/float_bits.hpp>
#include <shardwise/quant/ggml_codec.hpp>
#include <shardwise/quant/nf4_values.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// One row of a weight as a checkpoint stores it, and its scales where they lie apart; checkpoints promise no alignment.
struct StoredRow {
    std::byte const* data = nullptr;
    std::byte const* scales = nullptr;
    /// int4: elements that share a scale.
    std::int64_t group = 0;

    template <class T>
    [[nodiscard]] static T load(std::byte const* at) {
        T value;
        std::memcpy(&value, at, sizeof value);
        return value;
    }
    /// A code of four bits; element i in the low half of its byte where i is even.
    [[nodiscard]] std::uint8_t nibble(std::int64_t i) const {
        auto const byte = std::to_integer<unsigned>(data[i / 2]);
        return static_cast<std::uint8_t>((i % 2 != 0 ? byte >> 4U : byte) & 15U);
    }
};

/// Where a row is written.
struct WrittenRow {
    std::byte* data = nullptr;
    std::byte* scales = nullptr;
};

// Decode elements [first, first + count) of a row, whole blocks of it.

inline void decode_f32_row(StoredRow const& row, std::int64_t first, std::int64_t count, float* out) {
    if (count > 0) std::memcpy(out, row.data + first * 4, static_cast<std::size_t>(count) * sizeof(float));
}
inline void decode_bf16_row(StoredRow const& row, std::int64_t first, std::int64_t count, float* out) {
    auto const* const from = row.data + first * 2;
    for (std::int64_t i = 0; i < count; ++i) out[i] = from_bf16(StoredRow::load<std::uint16_t>(from + i * 2));
}
inline void decode_f16_row(StoredRow const& row, std::int64_t first, std::int64_t count, float* out) {
    auto const* const from = row.data + first * 2;
    for (std::int64_t i = 0; i < count; ++i) out[i] = from_f16(StoredRow::load<std::uint16_t>(from + i * 2));
}
/// scale * q, a float for the row.
inline void decode_int8_row(StoredRow const& row, std::int64_t first, std::int64_t count, float* out) {
    auto const scale = StoredRow::load<float>(row.scales);
    auto const* const from = row.data + first;
    for (std::int64_t i = 0; i < count; ++i)
        out[i] = scale * static_cast<float>(StoredRow::load<std::int8_t>(from + i));
}
/// scale * (q - 8), a half for each group.
inline void decode_int4_groups(StoredRow const& row, std::int64_t first, std::int64_t count, float* out) {
    for (std::int64_t i = 0; i < count; ++i) {
        auto const k = first + i;
        auto const q = static_cast<int>(row.nibble(k)) - 8;
        auto const scale = StoredRow::load<std::uint16_t>(row.scales + k / row.group * 2);
        out[i] = from_f16(scale) * static_cast<float>(q);
    }
}
/// The first of two elements is in the high half; a float for each 64.
inline void decode_nf4_row(StoredRow const& row, std::int64_t first, std::int64_t count, float* out) {
    for (std::int64_t i = 0; i < count; ++i) {
        auto const k = first + i;
        out[i] = nf4_values[row.nibble(k ^ 1)] * StoredRow::load<float>(row.scales + k / 64 * 4);
    }
}
/// As gpt-oss has it: an exponent for each 32.
inline void decode_mxfp4_row(StoredRow const& row, std::int64_t first, std::int64_t count, float* out) {
    for (std::int64_t i = 0; i < count; ++i) {
        auto const k = first + i;
        out[i] = from_e8m0(std::to_integer<std::uint8_t>(row.scales[k / 32])) * from_e2m1(row.nibble(k));
    }
}
template <GgmlType type>
void decode_ggml_row(StoredRow const& row, std::int64_t first, std::int64_t count, float* out) {
    constexpr std::int64_t elements = traits(type).block_elements;
    constexpr std::int64_t bytes = traits(type).block_bytes;
    auto const* const blocks = reinterpret_cast<std::uint8_t const*>(row.data) + first / elements * bytes;
    codec_of(type).decode({blocks, static_cast<std::size_t>(count / elements * bytes)},
                          {out, static_cast<std::size_t>(count)});
}

// Encode elements of a row, whole blocks of it; sizes were checked.

inline void encode_f32_row(std::span<float const> values, std::int64_t, WrittenRow const& row) {
    if (!values.empty()) std::memcpy(row.data, values.data(), values.size_bytes());
}
inline void encode_bf16_row(std::span<float const> values, std::int64_t, WrittenRow const& row) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        auto const bits = to_bf16(values[i]);
        std::memcpy(row.data + 2 * i, &bits, sizeof bits);
    }
}
inline void encode_f16_row(std::span<float const> values, std::int64_t, WrittenRow const& row) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        auto const bits = to_f16(values[i]);
        std::memcpy(row.data + 2 * i, &bits, sizeof bits);
    }
}
inline void encode_int8_values(std::span<float const> values, std::int64_t, WrittenRow const& row) {
    auto const scale = encode_int8_row(values, {reinterpret_cast<std::int8_t*>(row.data), values.size()});
    std::memcpy(row.scales, &scale, sizeof scale);
}
/// Group by group: the scales lie at any address.
inline void encode_int4_groups(std::span<float const> values, std::int64_t group, WrittenRow const& row) {
    auto const size = static_cast<std::size_t>(group);
    List<std::uint16_t> scales((values.size() + size - 1) / size);
    (void)encode_int4_row(values, size, {reinterpret_cast<std::uint8_t*>(row.data), (values.size() + 1) / 2},
                          {scales.data(), scales.size()});
    if (!scales.empty()) std::memcpy(row.scales, scales.data(), 2 * scales.size());
}
inline void encode_nf4_row(std::span<float const> values, std::int64_t, WrittenRow const& row) {
    for (std::size_t i = 0; i < values.size() / 64; ++i) {
        float absmax = 0.0F;
        (void)encode_nf4(values.subspan(64 * i, 64), {reinterpret_cast<std::uint8_t*>(row.data) + 32 * i, 32},
                         {&absmax, 1});
        std::memcpy(row.scales + 4 * i, &absmax, sizeof absmax);
    }
}
inline void encode_mxfp4_row(std::span<float const> values, std::int64_t, WrittenRow const& row) {
    for (std::size_t i = 0; i < values.size() / 32; ++i) {
        auto* const block = reinterpret_cast<std::uint8_t*>(row.data) + 16 * i;
        row.scales[i] = static_cast<std::byte>(
            encode_mxfp4_checkpoint(values.subspan(32 * i).first<32>(), std::span<std::uint8_t, 16>(block, 16)));
    }
}
template <GgmlType type>
void encode_ggml_row(std::span<float const> values, std::int64_t, WrittenRow const& row) {
    auto const bytes = values.size() / traits(type).block_elements * traits(type).block_bytes;
    codec_of(type).encode(values, {reinterpret_cast<std::uint8_t*>(row.data), bytes});
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
