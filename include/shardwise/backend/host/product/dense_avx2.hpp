// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_AVX2

namespace detail::avx2 {

/// As at the level avx512: few rows fetch a panel this many bytes before its use, more rows the next panel.
inline constexpr unsigned max_streaming_rows = 3;
inline constexpr std::int64_t prefetch_distance = 2048;

/// How the values of the 16 outputs of a panel are read: two registers for each of the `inputs` inputs that lie together, one input
/// after another: with the sums of six rows there is no room for more.
struct ReadF32 {
    static constexpr unsigned inputs = 1;
    static constexpr std::int64_t pair = 1;
    static constexpr std::int64_t bytes = 64;
    template <unsigned input>
    static void read(std::byte const* from, __m256* values) {
        auto const* const floats = reinterpret_cast<float const*>(from);
        values[0] = _mm256_load_ps(floats);
        values[1] = _mm256_load_ps(floats + 8);
    }
};
struct ReadBf16 {
    static constexpr unsigned inputs = 2;
    static constexpr std::int64_t pair = 2;
    static constexpr std::int64_t bytes = 64;
    template <unsigned input>
    static void read(std::byte const* from, __m256* values) {
        auto const* const pairs = reinterpret_cast<__m256i const*>(from);
        for (int half = 0; half < 2; ++half) {
            auto const both = _mm256_load_si256(pairs + half);
            values[half] = _mm256_castsi256_ps(input == 0 ? _mm256_slli_epi32(both, 16)
                                                          : _mm256_and_si256(both, _mm256_set1_epi32(-65536)));
        }
    }
};
struct ReadF16 {
    static constexpr unsigned inputs = 2;
    static constexpr std::int64_t pair = 1;
    static constexpr std::int64_t bytes = 64;
    template <unsigned input>
    static void read(std::byte const* from, __m256* values) {
        auto const* const halves = reinterpret_cast<__m128i const*>(from) + 2 * input;
        values[0] = _mm256_cvtph_ps(_mm_load_si128(halves));
        values[1] = _mm256_cvtph_ps(_mm_load_si128(halves + 1));
    }
};

/// Writes the first `outputs` of eight sums.
inline void write_sums(float* out, __m256 sums, std::int64_t outputs, bool accumulates) {
    if (outputs >= 8) {
        _mm256_storeu_ps(out, accumulates ? _mm256_add_ps(_mm256_loadu_ps(out), sums) : sums);
        return;
    }
    alignas(32) float values[8];
    _mm256_store_ps(values, sums);
    for (std::int64_t i = 0; i < outputs; ++i) out[i] = accumulates ? out[i] + values[i] : values[i];
}

/// Adds an input of some rows by the outputs of a panel.
template <class Read, unsigned input, unsigned rows>
SHARDWISE_ALWAYS_INLINE void add_input(std::byte const* panel, float const* in, std::int64_t stride,
                                       __m256 (&sums)[std::size_t{rows}][2]) {
    __m256 values[2];
    Read::template read<input>(panel, values);
    SHARDWISE_UNROLL
    for (unsigned row = 0; row < rows; ++row) {
        auto const factor = _mm256_set1_ps(in[row * stride]);
        sums[row][0] = _mm256_fmadd_ps(factor, values[0], sums[row][0]);
        sums[row][1] = _mm256_fmadd_ps(factor, values[1], sums[row][1]);
    }
}

template <class Read, unsigned rows>
inline void multiply_panel(TileTask const& task, unsigned index) {
    auto const* panel = task.panels[index];
    auto const* fetch = task.fetch[index];
    auto const outputs = task.outputs[index];
    auto* const out = task.out + index * panel_outputs;
    __m256 sums[std::size_t{rows}][2];
    SHARDWISE_UNROLL
    for (unsigned row = 0; row < rows; ++row) sums[row][0] = sums[row][1] = _mm256_setzero_ps();
    auto const* const in = task.in;
    auto const stride = task.in_stride;
    std::int64_t k = 0;
    if constexpr (Read::pair > 1) {
        if (task.begins_within) {
            add_input<Read, 1, rows>(panel, in, stride, sums);
            panel += Read::bytes;
            k = 1;
        }
    }
    for (; k + Read::inputs <= task.inputs; k += Read::inputs) {
        if constexpr (rows <= max_streaming_rows) {
            _mm_prefetch(reinterpret_cast<char const*>(panel + prefetch_distance), _MM_HINT_T0);
        } else {
            _mm_prefetch(reinterpret_cast<char const*>(fetch), _MM_HINT_T1);
            fetch += Read::bytes;
        }
        add_input<Read, 0, rows>(panel, in + k, stride, sums);
        if constexpr (Read::inputs == 2) add_input<Read, 1, rows>(panel, in + k + 1, stride, sums);
        panel += Read::bytes;
    }
    if (k < task.inputs) add_input<Read, 0, rows>(panel, in + k, stride, sums);
    SHARDWISE_UNROLL
    for (unsigned row = 0; row < rows; ++row) {
        write_sums(out + row * task.out_stride, sums[row][0], outputs, task.accumulates);
        write_sums(out + row * task.out_stride + 8, sums[row][1], outputs - 8, task.accumulates);
    }
}

/// Sixteen registers hold the sums of one panel at a time.
template <class Read, unsigned rows>
inline void multiply_tile(TileTask const& task) {
    multiply_panel<Read, rows>(task, 0);
    if (task.outputs[1] > 0) multiply_panel<Read, rows>(task, 1);
}

template <class Read, unsigned input>
SHARDWISE_ALWAYS_INLINE void widen_input(std::byte const* panel, float* out) {
    __m256 values[2];
    Read::template read<input>(panel, values);
    _mm256_store_ps(out, values[0]);
    _mm256_store_ps(out + 8, values[1]);
}
/// Writes inputs of a panel as floats.
template <class Read>
inline void widen_panel(std::byte const* panel, bool begins_within, std::int64_t inputs, float* out) {
    std::int64_t k = 0;
    if constexpr (Read::pair > 1) {
        if (begins_within) {
            widen_input<Read, 1>(panel, out);
            panel += Read::bytes;
            k = 1;
        }
    }
    for (; k + Read::inputs <= inputs; k += Read::inputs, panel += Read::bytes) {
        widen_input<Read, 0>(panel, out + k * panel_outputs);
        if constexpr (Read::inputs == 2) widen_input<Read, 1>(panel, out + (k + 1) * panel_outputs);
    }
    if (k < inputs) widen_input<Read, 0>(panel, out + k * panel_outputs);
}

template <class Read>
constexpr TileKernels make_tile_kernels() {
    TileKernels made{{&multiply_tile<Read, 1>, &multiply_tile<Read, 2>, &multiply_tile<Read, 3>,
                      &multiply_tile<Read, 4>, &multiply_tile<Read, 5>, &multiply_tile<Read, 6>}};
    made.max_rows = 6;
    made.input_bytes = Read::bytes / std::int64_t{Read::inputs};
    made.pair = Read::pair;
    return made;
}
inline constexpr TileKernels float_tile_kernels = make_tile_kernels<ReadF32>();
/// Of 16-bit elements. Nothing names itself while it is made: clang 14 leaves zeros then.
template <class Read>
constexpr TileKernels make_widening_kernels() {
    auto made = make_tile_kernels<Read>();
    made.of_floats = &float_tile_kernels;
    made.widen = &widen_panel<Read>;
    return made;
}
template <class Read>
inline constexpr TileKernels tile_kernels = make_widening_kernels<Read>();

inline void widen_bf16(std::byte const* from, std::int64_t count, float* to) {
    auto const* const values = reinterpret_cast<std::uint16_t const*>(from);
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        auto const bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(values + i)));
        _mm256_storeu_ps(to + i, _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)));
    }
    for (; i < count; ++i) {
        to[i] = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(std::uint32_t{values[i]} << 16U))));
    }
}
inline void widen_f16(std::byte const* from, std::int64_t count, float* to) {
    auto const* const values = reinterpret_cast<std::uint16_t const*>(from);
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(values + i))));
    }
    for (; i < count; ++i) to[i] = _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(values[i])));
}

}  // namespace detail::avx2

SHARDWISE_TARGET_END

namespace detail::avx2 {

inline void multiply_f32(ProductTask const& task) {
    run_tiles(task, float_tile_kernels);
}
inline void multiply_bf16(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadBf16>);
}
inline void multiply_f16(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadF16>);
}

}  // namespace detail::avx2

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
