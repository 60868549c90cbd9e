#pragma once

#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/quant/float_bits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

namespace detail::portable {

/// How a panel's values are read: the 16 outputs' values of one input.
struct ReadF32 {
    static constexpr WeightFormat format = WeightFormat::f32;
    static void read(std::byte const* panel, std::int64_t k, float* values) {
        auto const* const from = reinterpret_cast<float const*>(panel) + k * panel_outputs;
        for (std::int64_t i = 0; i < panel_outputs; ++i) values[i] = from[i];
    }
};
struct ReadBf16 {
    static constexpr WeightFormat format = WeightFormat::bf16;
    static void read(std::byte const* panel, std::int64_t k, float* values) {
        auto const* const from = reinterpret_cast<std::uint16_t const*>(panel) + k / 2 * panel_outputs * 2 + k % 2;
        for (std::int64_t i = 0; i < panel_outputs; ++i) values[i] = from_bf16(from[i * 2]);
    }
};
struct ReadF16 {
    static constexpr WeightFormat format = WeightFormat::f16;
    static void read(std::byte const* panel, std::int64_t k, float* values) {
        auto const* const from = reinterpret_cast<std::uint16_t const*>(panel) + k * panel_outputs;
        for (std::int64_t i = 0; i < panel_outputs; ++i) values[i] = from_f16(from[i]);
    }
};

/// One tile: `tile_rows` rows by one panel, all inputs.
template <class Read, std::int64_t tile_rows>
void multiply_tile(ProductTask const& task, std::byte const* panel, std::int64_t first_row, std::int64_t first_output) {
    float sums[static_cast<std::size_t>(tile_rows)][panel_outputs] = {};
    float values[panel_outputs];
    for (std::int64_t k = 0; k < task.weight.inputs; ++k) {
        Read::read(panel, k, values);
        for (std::int64_t row = 0; row < tile_rows; ++row) {
            auto const factor = task.in[(first_row + row) * task.in_stride + k];
            for (std::int64_t i = 0; i < panel_outputs; ++i) sums[row][i] += factor * values[i];
        }
    }
    auto const count = std::min(panel_outputs, task.weight.outputs - first_output);
    for (std::int64_t row = 0; row < tile_rows; ++row) {
        auto* const out = task.out + (first_row + row) * task.out_stride + first_output;
        std::copy_n(sums[row], count, out);
    }
}

template <class Read>
void multiply_panels(ProductTask const& task) {
    auto const stride = *panel_bytes(Read::format, task.weight.inputs, 0);
    for (auto panel = task.first_panel; panel < task.last_panel; ++panel) {
        auto const* const values = task.weight.data + panel * stride;
        std::int64_t row = 0;
        for (; row + 4 <= task.rows; row += 4) multiply_tile<Read, 4>(task, values, row, panel * panel_outputs);
        for (; row < task.rows; ++row) multiply_tile<Read, 1>(task, values, row, panel * panel_outputs);
    }
}

inline void multiply_f32(ProductTask const& task) {
    multiply_panels<ReadF32>(task);
}
inline void multiply_bf16(ProductTask const& task) {
    multiply_panels<ReadBf16>(task);
}
inline void multiply_f16(ProductTask const& task) {
    multiply_panels<ReadF16>(task);
}

}  // namespace detail::portable

}  // namespace shardwise::inline v0_2_0
