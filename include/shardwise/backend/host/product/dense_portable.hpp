#pragma once

#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardwise::inline v0_2_0 {

namespace detail::portable {

/// How the values of the 16 outputs of a panel are read for input k.
struct ReadF32 {
    static constexpr std::int64_t input_bytes = 64;
    static void read(std::byte const* panel, std::int64_t k, float* values) {
        auto const* const from = reinterpret_cast<float const*>(panel) + k * panel_outputs;
        for (std::int64_t i = 0; i < panel_outputs; ++i) values[i] = from[i];
    }
};
struct ReadBf16 {
    static constexpr std::int64_t input_bytes = 32;
    static void read(std::byte const* panel, std::int64_t k, float* values) {
        auto const* const from = reinterpret_cast<std::uint16_t const*>(panel) + k / 2 * panel_outputs * 2 + k % 2;
        for (std::int64_t i = 0; i < panel_outputs; ++i) values[i] = from_bf16(from[i * 2]);
    }
};
struct ReadF16 {
    static constexpr std::int64_t input_bytes = 32;
    static void read(std::byte const* panel, std::int64_t k, float* values) {
        auto const* const from = reinterpret_cast<std::uint16_t const*>(panel) + k * panel_outputs;
        for (std::int64_t i = 0; i < panel_outputs; ++i) values[i] = from_f16(from[i]);
    }
};

template <class Read, unsigned rows>
void multiply_tile(TileTask const& task) {
    for (std::size_t panel = 0; panel < tile_panels; ++panel) {
        if (task.outputs[panel] == 0) continue;
        float sums[std::size_t{rows}][panel_outputs] = {};
        for (std::int64_t k = 0; k < task.inputs; ++k) {
            float values[panel_outputs];
            Read::read(task.panels[panel], k, values);
            for (unsigned row = 0; row < rows; ++row) {
                auto const factor = task.in[row * task.in_stride + k];
                for (std::int64_t i = 0; i < panel_outputs; ++i) sums[row][i] += factor * values[i];
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
    Read::input_bytes};

inline void widen_f32(std::byte const* from, std::int64_t count, float* to) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
}
inline void widen_bf16(std::byte const* from, std::int64_t count, float* to) {
    auto const* const values = reinterpret_cast<std::uint16_t const*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = from_bf16(values[i]);
}
inline void widen_f16(std::byte const* from, std::int64_t count, float* to) {
    auto const* const values = reinterpret_cast<std::uint16_t const*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = from_f16(values[i]);
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

}  // namespace shardwise::inline v0_2_0
