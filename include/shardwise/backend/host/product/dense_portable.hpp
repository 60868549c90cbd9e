// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/core/unfused.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_UNFUSED_BEGIN

namespace detail::portable {

/// from_f16 without branches, so that compilers vectorise it; what is not a number stays so.
[[nodiscard]] inline float widen_half(std::uint16_t half) {
    auto const sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
    auto const magnitude = static_cast<std::uint32_t>(half & 0x7FFFU) << 13U;
    // The exponent's bias differs by 112: one exact product, for halves below 2^-14 too.
    auto const finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
    return std::bit_cast<float>(sign | (magnitude >= 0x0F800000U ? magnitude | 0x7F800000U : finite));
}

/// How the values of the 16 outputs of a panel are read, for `inputs` inputs at a time.
struct ReadF32 {
    static constexpr std::int64_t inputs = 1;
    static constexpr std::int64_t input_bytes = 64;
    static void read(std::byte const* from, float (&values)[inputs][panel_outputs]) {
        std::memcpy(values, from, sizeof values);
    }
};
struct ReadBf16 {
    static constexpr std::int64_t inputs = 2;
    static constexpr std::int64_t input_bytes = 32;
    static void read(std::byte const* from, float (&values)[inputs][panel_outputs]) {
        std::uint16_t halves[2 * panel_outputs];
        std::memcpy(halves, from, sizeof halves);
        for (std::int64_t i = 0; i < panel_outputs; ++i) values[0][i] = from_bf16(halves[2 * i]);
        for (std::int64_t i = 0; i < panel_outputs; ++i) values[1][i] = from_bf16(halves[2 * i + 1]);
    }
};
struct ReadF16 {
    static constexpr std::int64_t inputs = 1;
    static constexpr std::int64_t input_bytes = 32;
    static void read(std::byte const* from, float (&values)[inputs][panel_outputs]) {
        std::uint16_t halves[panel_outputs];
        std::memcpy(halves, from, sizeof halves);
        for (std::int64_t i = 0; i < panel_outputs; ++i) values[0][i] = widen_half(halves[i]);
    }
};

template <class Read, unsigned rows>
void multiply_tile(TileTask const& task) {
    for (std::size_t panel = 0; panel < tile_panels; ++panel) {
        if (task.outputs[panel] == 0) continue;
        float sums[std::size_t{rows}][panel_outputs] = {};
        std::int64_t const skipped = task.begins_within ? 1 : 0;
        for (std::int64_t k = -skipped; k < task.inputs; k += Read::inputs) {
            float values[Read::inputs][panel_outputs];
            Read::read(task.panels[panel] + (k + skipped) * Read::input_bytes, values);
            // What fills a panel up to whole pairs has no activation.
            auto const count = std::min(Read::inputs, task.inputs - k);
            for (auto j = k < 0 ? skipped : 0; j < count; ++j) {
                for (unsigned row = 0; row < rows; ++row) {
                    auto const factor = task.in[row * task.in_stride + k + j];
                    for (std::int64_t i = 0; i < panel_outputs; ++i) sums[row][i] += factor * values[j][i];
                }
            }
        }
        for (unsigned row = 0; row < rows; ++row) {
            auto* const out = task.out + row * task.out_stride + static_cast<std::int64_t>(panel) * panel_outputs;
            for (std::int64_t i = 0; i < task.outputs[panel]; ++i) {
                out[i] = task.accumulates ? out[i] + sums[row][i] : sums[row][i];
            }
        }
    }
}

template <class Read>
inline constexpr TileKernels tile_kernels{
    {&multiply_tile<Read, 1>, &multiply_tile<Read, 2>, &multiply_tile<Read, 3>, &multiply_tile<Read, 4>},
    4,
    Read::input_bytes,
    0,
    Read::inputs};

inline void widen_f32(std::byte const* from, std::int64_t count, float* to) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}
inline void widen_bf16(std::byte const* from, std::int64_t count, float* to) {
    auto const* const values = reinterpret_cast<std::uint16_t const*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = from_bf16(values[i]);
}
inline void widen_f16(std::byte const* from, std::int64_t count, float* to) {
    auto const* const values = reinterpret_cast<std::uint16_t const*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = widen_half(values[i]);
}

inline void multiply_f32(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadF32>);
}
inline void multiply_bf16(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadBf16>);
}
inline void multiply_f16(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadF16>);
}

}  // namespace detail::portable

SHARDWISE_UNFUSED_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
