// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/backend/host/product/transpose_words.hpp>
#include <shardwise/backend/weight_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

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
            transpose_words(source.data.data() + panel * panel_outputs * row_bytes, row_bytes, panel_outputs,
                            source.inputs, reinterpret_cast<std::byte*>(out), panel_outputs * 4);
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
            transpose_words(source.data.data() + panel * panel_outputs * row_bytes, row_bytes, panel_outputs,
                            source.inputs / 2, reinterpret_cast<std::byte*>(out), panel_outputs * 4);
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
