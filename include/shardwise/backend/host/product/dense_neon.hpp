// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(SHARDWISE_HAS_ARM_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_NEON

namespace detail::neon {

/// Registers of the 16 outputs of a panel.
inline constexpr int panel_registers = 4;

/// Bytes as words of 16 or 32 bits; a panel is aligned to its lines.
inline uint16x8_t load_words(std::byte const* from) {
    return vld1q_u16(reinterpret_cast<std::uint16_t const*>(from));
}
inline uint32x4_t load_pairs(std::byte const* from) {
    return vld1q_u32(reinterpret_cast<std::uint32_t const*>(from));
}

/// How the values of the 16 outputs of a panel are read, for `inputs` inputs at a time: four registers for each.
struct ReadF32 {
    static constexpr unsigned inputs = 1;
    static constexpr std::int64_t pair = 1;
    static constexpr std::int64_t bytes = 64;
    static void read(std::byte const* from, float32x4_t* values) {
        auto const* const floats = reinterpret_cast<float const*>(from);
        SHARDWISE_UNROLL
        for (int i = 0; i < panel_registers; ++i) values[i] = vld1q_f32(floats + 4 * i);
    }
    static void read_last(std::byte const*, float32x4_t*) {}
};
struct ReadBf16 {
    static constexpr unsigned inputs = 2;
    static constexpr std::int64_t pair = 2;
    static constexpr std::int64_t bytes = 64;
    static void read(std::byte const* from, float32x4_t* values) {
        read_last(from, values);
        SHARDWISE_UNROLL
        for (int i = 0; i < panel_registers; ++i) {
            uint32x4_t const upper = vandq_u32(load_pairs(from + 16 * i), vdupq_n_u32(0xFFFF0000U));
            values[panel_registers + i] = vreinterpretq_f32_u32(upper);
        }
    }
    static void read_last(std::byte const* from, float32x4_t* values) {
        SHARDWISE_UNROLL
        for (int i = 0; i < panel_registers; ++i)
            values[i] = vreinterpretq_f32_u32(vshlq_n_u32(load_pairs(from + 16 * i), 16));
    }
};
struct ReadF16 {
    static constexpr unsigned inputs = 1;
    static constexpr std::int64_t pair = 1;
    static constexpr std::int64_t bytes = 32;
    static void read(std::byte const* from, float32x4_t* values) {
        SHARDWISE_UNROLL
        for (int i = 0; i < 2; ++i) {
            float16x8_t const halves = vreinterpretq_f16_u16(load_words(from + 16 * i));
            values[2 * i] = vcvt_f32_f16(vget_low_f16(halves));
            values[2 * i + 1] = vcvt_high_f32_f16(halves);
        }
    }
    static void read_last(std::byte const*, float32x4_t*) {}
};

/// Writes the first `outputs` of four sums.
inline void write_sums(float* out, float32x4_t sums, std::int64_t outputs, bool accumulates) {
    if (outputs >= 4) {
        vst1q_f32(out, accumulates ? vaddq_f32(vld1q_f32(out), sums) : sums);
        return;
    }
    float values[4];
    vst1q_f32(values, sums);
    for (std::int64_t i = 0; i < outputs; ++i) out[i] = accumulates ? out[i] + values[i] : values[i];
}

/// Adds the products of one input of each row.
template <unsigned rows>
inline void add_input(float const* in, std::int64_t stride, float32x4_t const* values,
                      float32x4_t (&sums)[std::size_t{rows}][panel_registers]) {
    SHARDWISE_UNROLL
    for (unsigned row = 0; row < rows; ++row) {
        float const factor = in[row * stride];
        SHARDWISE_UNROLL
        for (int i = 0; i < panel_registers; ++i) sums[row][i] = vfmaq_n_f32(sums[row][i], values[i], factor);
    }
}

template <class Read, unsigned rows>
inline void multiply_panel(TileTask const& task, unsigned index) {
    auto const* panel = task.panels[index];
    auto const outputs = task.outputs[index];
    auto* const out = task.out + index * panel_outputs;
    float32x4_t sums[std::size_t{rows}][panel_registers];
    SHARDWISE_UNROLL
    for (unsigned row = 0; row < rows; ++row) {
        SHARDWISE_UNROLL
        for (int i = 0; i < panel_registers; ++i) sums[row][i] = vdupq_n_f32(0.0F);
    }
    float32x4_t values[std::size_t{Read::inputs}][panel_registers];
    auto const* const in = task.in;
    auto const stride = task.in_stride;
    std::int64_t k = 0;
    if constexpr (Read::pair > 1) {
        if (task.begins_within) {
            Read::read(panel, values[0]);
            add_input<rows>(in, stride, values[1], sums);
            panel += Read::bytes;
            k = 1;
        }
    }
    for (; k + Read::inputs <= task.inputs; k += Read::inputs) {
        Read::read(panel, values[0]);
        panel += Read::bytes;
        SHARDWISE_UNROLL
        for (unsigned i = 0; i < Read::inputs; ++i) add_input<rows>(in + k + i, stride, values[i], sums);
    }
    if (k < task.inputs) {
        Read::read_last(panel, values[0]);
        add_input<rows>(in + k, stride, values[0], sums);
    }
    SHARDWISE_UNROLL
    for (unsigned row = 0; row < rows; ++row) {
        SHARDWISE_UNROLL
        for (int i = 0; i < panel_registers; ++i)
            write_sums(out + row * task.out_stride + 4 * i, sums[row][i], outputs - 4 * i, task.accumulates);
    }
}

/// The sums of a panel take 24 of 32 registers.
template <class Read, unsigned rows>
inline void multiply_tile(TileTask const& task) {
    multiply_panel<Read, rows>(task, 0);
    if (task.outputs[1] > 0) multiply_panel<Read, rows>(task, 1);
}

template <class Read>
inline constexpr TileKernels tile_kernels{{&multiply_tile<Read, 1>, &multiply_tile<Read, 2>, &multiply_tile<Read, 3>,
                                           &multiply_tile<Read, 4>, &multiply_tile<Read, 5>, &multiply_tile<Read, 6>},
                                          6,
                                          Read::bytes / std::int64_t{Read::inputs},
                                          0,
                                          Read::pair};

inline void widen_bf16(std::byte const* from, std::int64_t count, float* to) {
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        uint16x4_t halves;
        std::memcpy(&halves, from + 2 * i, sizeof halves);
        vst1q_f32(to + i, vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(halves), 16)));
    }
    for (; i < count; ++i) {
        std::uint16_t half;
        std::memcpy(&half, from + 2 * i, sizeof half);
        auto const bits = std::uint32_t{half} << 16U;
        std::memcpy(to + i, &bits, sizeof bits);
    }
}
inline void widen_f16(std::byte const* from, std::int64_t count, float* to) {
    for (std::int64_t i = 0; i < count; i += 4) {
        auto const left = count - i < 4 ? static_cast<std::size_t>(count - i) : std::size_t{4};
        uint16x4_t halves = vdup_n_u16(0);
        std::memcpy(&halves, from + 2 * i, 2 * left);
        float32x4_t const values = vcvt_f32_f16(vreinterpret_f16_u16(halves));
        std::memcpy(to + i, &values, 4 * left);
    }
}

}  // namespace detail::neon

SHARDWISE_TARGET_END

namespace detail::neon {

inline void multiply_f32(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadF32>);
}
inline void multiply_bf16(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadBf16>);
}
inline void multiply_f16(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadF16>);
}

}  // namespace detail::neon

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
