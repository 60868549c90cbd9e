// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/backend/weight_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Four words of 32 bits in a register.
using FourWords = std::uint32_t __attribute__((vector_size(16)));

/// Writes four rows of four words as columns, in registers.
inline void turn_four_words(std::byte const* rows, std::int64_t row_bytes, std::byte* out) {
    auto const load = [&](std::int64_t row) {
        FourWords value;
        std::memcpy(&value, rows + row * row_bytes, sizeof value);
        return value;
    };
    auto const a = load(0);
    auto const b = load(1);
    auto const c = load(2);
    auto const d = load(3);
    FourWords const ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    FourWords const ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    FourWords const cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    FourWords const cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    FourWords const turned[] = {
        __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
        __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
    for (std::int64_t i = 0; i < 4; ++i) std::memcpy(out + i * panel_outputs * 4, &turned[i], sizeof(FourWords));
}

/// Writes 16 rows of words as columns. A cache line of each row is used up at once: rows that lie a power of two apart share the
/// places of the first-level cache, which has fewer than 16 for them.
///
/// Shapes  rows: 16 of `words` words, `row_bytes` apart; out [words, 16]
inline void turn_words(std::byte const* rows, std::int64_t row_bytes, std::int64_t words, std::byte* out) {
    static_assert(panel_outputs == 16);
    constexpr std::int64_t line_words = 16;
    auto const turn = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = 0; row < panel_outputs; row += 4) {
            for (auto word = begin; word < end; word += 4) {
                turn_four_words(rows + row * row_bytes + word * 4, row_bytes, out + (word * panel_outputs + row) * 4);
            }
        }
    };
    std::int64_t word = 0;
    for (; word + line_words <= words; word += line_words) turn(word, word + line_words);
    auto const whole = words - words % 4;
    turn(word, whole);
    for (word = whole; word < words; ++word) {
        for (std::int64_t row = 0; row < panel_outputs; ++row)
            std::memcpy(out + (word * panel_outputs + row) * 4, rows + row * row_bytes + word * 4, 4);
    }
}

/// Panels of floats, whatever the source's format.
///
/// Shapes  panel [inputs, panel_outputs]
inline void pack_f32_panels(WeightSource const& source, std::byte* packed, std::int64_t first, std::int64_t last) {
    float chunk[panel_outputs][source_chunk];
    for (auto panel = first; panel < last; ++panel) {
        auto* const out = reinterpret_cast<float*>(packed) + panel * source.inputs * panel_outputs;
        auto const filled = std::min(panel_outputs, source.outputs - panel * panel_outputs);
        if (source.format == WeightFormat::f32 && filled == panel_outputs) {
            auto const row_bytes = source.inputs * 4;
            turn_words(source.data.data() + panel * panel_outputs * row_bytes, row_bytes, source.inputs,
                       reinterpret_cast<std::byte*>(out));
            continue;
        }
        for (std::int64_t begin = 0; begin < source.inputs; begin += source_chunk) {
            auto const count = std::min(source_chunk, source.inputs - begin);
            for (std::int64_t i = 0; i < panel_outputs; ++i) {
                if (i < filled) {
                    decode_source(source, panel * panel_outputs + i, begin, count, chunk[i]);
                } else {
                    std::fill_n(chunk[i], count, 0.0F);
                }
            }
            auto* row = out + begin * panel_outputs;
            for (std::int64_t k = 0; k < count; ++k, row += panel_outputs) {
                for (std::int64_t i = 0; i < panel_outputs; ++i) row[i] = chunk[i][k];
            }
        }
    }
}

/// Panels of 16-bit values, `group` inputs of an output beside each other; inputs that fill the last group are zero.
///
/// Shapes  panel [ceil(inputs / group), panel_outputs, group], panels `stride` values apart
template <std::int64_t group>
void pack_16_bit_panels(WeightSource const& source, std::byte* packed, std::int64_t first, std::int64_t last,
                        std::int64_t stride) {
    for (auto panel = first; panel < last; ++panel) {
        auto* const out = reinterpret_cast<std::uint16_t*>(packed) + panel * stride;
        auto const filled = std::min(panel_outputs, source.outputs - panel * panel_outputs);
        if (group == 2 && filled == panel_outputs && source.inputs % 2 == 0) {
            // Two inputs are a word.
            auto const row_bytes = source.inputs * 2;
            turn_words(source.data.data() + panel * panel_outputs * row_bytes, row_bytes, source.inputs / 2,
                       reinterpret_cast<std::byte*>(out));
            continue;
        }
        std::fill_n(out, stride, std::uint16_t{0});
        for (std::int64_t begin = 0; begin < source.inputs; begin += source_chunk) {
            auto const end = std::min(begin + source_chunk, source.inputs);
            for (std::int64_t i = 0; i < filled; ++i) {
                auto const row = (panel * panel_outputs + i) * source.inputs;
                for (auto k = begin; k < end; ++k) {
                    out[(k / group * panel_outputs + i) * group + k % group] =
                        load_at<std::uint16_t>(source.data, (row + k) * 2);
                }
            }
        }
    }
}

/// Shapes  panel [ceil(inputs / 2), panel_outputs, 2]
inline void pack_bf16_panels(WeightSource const& source, std::byte* packed, std::int64_t first, std::int64_t last) {
    pack_16_bit_panels<2>(source, packed, first, last, round_up(source.inputs, 2) * panel_outputs);
}

/// Shapes  panel [inputs, panel_outputs], filled up to a cache line
inline void pack_f16_panels(WeightSource const& source, std::byte* packed, std::int64_t first, std::int64_t last) {
    pack_16_bit_panels<1>(source, packed, first, last, round_up(source.inputs * panel_outputs, panel_alignment / 2));
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
