// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_AVX512

namespace detail::avx512 {

/// Up to this many rows memory is the bound, and a panel is fetched this many bytes before its use; more rows fetch the next
/// panels while they compute (chosen by bench/bench_matmul.cpp).
inline constexpr unsigned max_streaming_rows = 4;
inline constexpr std::int64_t prefetch_distance = 2048;

/// How the values of the 16 outputs of a panel are read: one register for each of `inputs` inputs. One row has `chains` sums of
/// tile_inputs products at a time: a chain of multiply-adds for each 64 bytes keeps up with memory, one of twice as many does not.
struct ReadF32 {
    static constexpr unsigned inputs = 1;
    static constexpr std::int64_t pair = 1;
    static constexpr int chains = 1;
    static constexpr std::int64_t bytes = 64;
    static void read(std::byte const* from, __m512* values) { values[0] = _mm512_load_ps(from); }
    static void read_last(std::byte const*, __m512*) {}
};
struct ReadBf16 {
    static constexpr unsigned inputs = 2;
    static constexpr std::int64_t pair = 2;
    static constexpr int chains = 2;
    static constexpr std::int64_t bytes = 64;
    static void read(std::byte const* from, __m512* values) {
        auto const pairs = _mm512_load_si512(from);
        values[0] = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
        values[1] = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)));
    }
    static void read_last(std::byte const* from, __m512* values) {
        values[0] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_load_si512(from), 16));
    }
};
struct ReadF16 {
    static constexpr unsigned inputs = 2;
    static constexpr std::int64_t pair = 1;
    static constexpr int chains = 2;
    static constexpr std::int64_t bytes = 64;
    static void read(std::byte const* from, __m512* values) {
        auto const* const halves = reinterpret_cast<__m256i const*>(from);
        values[0] = _mm512_cvtph_ps(_mm256_load_si256(halves));
        values[1] = _mm512_cvtph_ps(_mm256_load_si256(halves + 1));
    }
    static void read_last(std::byte const* from, __m512* values) {
        values[0] = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<__m256i const*>(from)));
    }
};

/// Sums of tile_inputs products each, side by side; memory is asked for in its order, some sums ahead.
template <class Read>
inline void sum_chains(std::byte const* panel, float const* in, __m512* sums) {
    constexpr auto bytes = tile_inputs / std::int64_t{Read::inputs} * Read::bytes;
    SHARDWISE_UNROLL
    for (int chain = 0; chain < Read::chains; ++chain) sums[chain] = _mm512_setzero_ps();
    auto const* reading = panel;
    for (std::int64_t k = 0; k < tile_inputs; k += Read::inputs, panel += Read::bytes) {
        SHARDWISE_UNROLL
        for (int chain = 0; chain < Read::chains; ++chain, reading += Read::bytes) {
            ask_ahead(reading);
            __m512 values[Read::inputs];
            Read::read(panel + chain * bytes, values);
            SHARDWISE_UNROLL
            for (unsigned i = 0; i < Read::inputs; ++i) {
                auto const factor = _mm512_set1_ps(in[chain * tile_inputs + k + i]);
                sums[chain] = _mm512_fmadd_ps(factor, values[i], sums[chain]);
            }
        }
    }
}

/// The sum of `inputs` products, one after another.
template <class Read>
inline __m512 sum_inputs(std::byte const* panel, float const* in, std::int64_t inputs, bool begins_within) {
    auto sum = _mm512_setzero_ps();
    std::int64_t k = 0;
    if constexpr (Read::pair > 1) {
        if (begins_within) {
            __m512 values[Read::inputs];
            Read::read(panel, values);
            sum = _mm512_fmadd_ps(_mm512_set1_ps(in[0]), values[1], sum);
            panel += Read::bytes;
            k = 1;
        }
    }
    for (; k + Read::inputs <= inputs; k += Read::inputs, panel += Read::bytes) {
        ask_ahead(panel);
        __m512 values[Read::inputs];
        Read::read(panel, values);
        SHARDWISE_UNROLL
        for (unsigned i = 0; i < Read::inputs; ++i) sum = _mm512_fmadd_ps(_mm512_set1_ps(in[k + i]), values[i], sum);
    }
    if (k < inputs) {
        __m512 value;
        Read::read_last(panel, &value);
        sum = _mm512_fmadd_ps(_mm512_set1_ps(in[k]), value, sum);
    }
    return sum;
}

/// One row by all inputs of one panel and then of the other, so that memory is read from the first byte to the last,
/// which is what the core's own prefetching likes best: two panels side by side or a call for every tile were slower beyond
/// the caches (bench/results/2026-11-22-decode-epyc.md). The sums of tile_inputs products are added in the order in which
/// tiles would come.
template <class Read, unsigned rows>
void multiply_tile(TileTask const& task);

/// Inputs below which one row takes two panels side by side where one sum does not keep up with memory: there are too few for
/// sums side by side in one panel.
inline constexpr std::int64_t few_inputs = 4 * tile_inputs;

/// One row by two panels side by side, in the order of tiles.
template <class Read>
inline void multiply_row_beside(TileTask const& task) {
    auto tile = task;
    for (std::int64_t begin = 0; begin < task.inputs; begin += tile_inputs) {
        tile.in = task.in + begin;
        tile.inputs = task.inputs - begin > tile_inputs ? tile_inputs : task.inputs - begin;
        for (int i = 0; i < tile_panels; ++i) tile.panels[i] = task.panels[i] + begin / Read::inputs * Read::bytes;
        multiply_tile<Read, 1>(tile);
        tile.accumulates = true;
    }
}

template <class Read>
inline void multiply_row(TileTask const& task) {
    if constexpr (Read::chains > 1) {
        if (task.inputs < few_inputs && task.outputs[1] > 0) return multiply_row_beside<Read>(task);
    }
    constexpr auto together = Read::chains * tile_inputs;
    for (std::size_t index = 0; index < tile_panels && task.outputs[index] > 0; ++index) {
        auto const* const panel = task.panels[index];
        auto const mask = static_cast<__mmask16>((1U << static_cast<unsigned>(task.outputs[index])) - 1U);
        auto* const out = task.out + index * panel_outputs;
        auto total = task.accumulates ? _mm512_maskz_loadu_ps(mask, out) : _mm512_setzero_ps();
        std::int64_t begin = 0;
        // A sum of -0 stays.
        bool has_total = task.accumulates;
        if constexpr (Read::chains > 1) {
            for (; begin + together <= task.inputs && !task.begins_within; begin += together) {
                __m512 sums[Read::chains];
                sum_chains<Read>(panel + begin / Read::inputs * Read::bytes, task.in + begin, sums);
                for (auto const& sum : sums) {
                    total = has_total ? _mm512_add_ps(total, sum) : sum;
                    has_total = true;
                }
            }
        }
        for (; begin < task.inputs; begin += tile_inputs) {
            auto const inputs = task.inputs - begin > tile_inputs ? tile_inputs : task.inputs - begin;
            auto const sum = sum_inputs<Read>(panel + begin / Read::inputs * Read::bytes, task.in + begin, inputs,
                                              task.begins_within);
            total = has_total ? _mm512_add_ps(total, sum) : sum;
            has_total = true;
        }
        _mm512_mask_storeu_ps(out, mask, total);
    }
}

template <class Read, unsigned rows>
void multiply_tile(TileTask const& task) {
    __m512 sums[std::size_t{rows}][2];
    SHARDWISE_UNROLL
    for (unsigned row = 0; row < rows; ++row) sums[row][0] = sums[row][1] = _mm512_setzero_ps();
    auto const* const in = task.in;
    // More rows than run_direct takes were copied.
    std::int64_t const stride = rows > 8 ? copied_stride : task.in_stride;
    auto const* first = task.panels[0];
    auto const* second = task.panels[1];
    std::byte const* const fetch[2] = {task.fetch[0], task.fetch[1]};
    std::int64_t offset = 0;
    std::int64_t k = 0;
    if constexpr (Read::pair > 1) {
        if (task.begins_within) {
            __m512 values[2][Read::inputs];
            Read::read(first, values[0]);
            Read::read(second, values[1]);
            SHARDWISE_UNROLL
            for (unsigned row = 0; row < rows; ++row) {
                auto const factor = _mm512_set1_ps(in[row * stride]);
                sums[row][0] = _mm512_fmadd_ps(factor, values[0][1], sums[row][0]);
                sums[row][1] = _mm512_fmadd_ps(factor, values[1][1], sums[row][1]);
            }
            first += Read::bytes;
            second += Read::bytes;
            offset += Read::bytes;
            k = 1;
        }
    }
    for (; k + Read::inputs <= task.inputs; k += Read::inputs) {
        __m512 values[2][Read::inputs];
        Read::read(first, values[0]);
        Read::read(second, values[1]);
        if constexpr (rows == 1) {
            ask_ahead(first);
            ask_ahead(second);
        } else if constexpr (rows <= max_streaming_rows) {
            _mm_prefetch(reinterpret_cast<char const*>(first + prefetch_distance), _MM_HINT_T0);
            _mm_prefetch(reinterpret_cast<char const*>(second + prefetch_distance), _MM_HINT_T0);
        } else {
            _mm_prefetch(reinterpret_cast<char const*>(fetch[0] + offset), _MM_HINT_T1);
            _mm_prefetch(reinterpret_cast<char const*>(fetch[1] + offset), _MM_HINT_T1);
        }
        first += Read::bytes;
        second += Read::bytes;
        offset += Read::bytes;
        SHARDWISE_UNROLL
        for (unsigned i = 0; i < Read::inputs; ++i) {
            SHARDWISE_UNROLL
            for (unsigned row = 0; row < rows; ++row) {
                auto const factor = _mm512_set1_ps(in[row * stride + k + i]);
                sums[row][0] = _mm512_fmadd_ps(factor, values[0][i], sums[row][0]);
                sums[row][1] = _mm512_fmadd_ps(factor, values[1][i], sums[row][1]);
            }
        }
    }
    if (k < task.inputs) {
        __m512 values[2];
        Read::read_last(first, &values[0]);
        Read::read_last(second, &values[1]);
        SHARDWISE_UNROLL
        for (unsigned row = 0; row < rows; ++row) {
            auto const factor = _mm512_set1_ps(in[row * stride + k]);
            sums[row][0] = _mm512_fmadd_ps(factor, values[0], sums[row][0]);
            sums[row][1] = _mm512_fmadd_ps(factor, values[1], sums[row][1]);
        }
    }
    auto const mask0 = static_cast<__mmask16>((1U << static_cast<unsigned>(task.outputs[0])) - 1U);
    auto const mask1 = static_cast<__mmask16>((1U << static_cast<unsigned>(task.outputs[1])) - 1U);
    SHARDWISE_UNROLL
    for (unsigned row = 0; row < rows; ++row) {
        auto* const out = task.out + row * task.out_stride;
        if (task.accumulates) {
            sums[row][0] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask0, out), sums[row][0]);
            sums[row][1] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask1, out + 16), sums[row][1]);
        }
        _mm512_mask_storeu_ps(out, mask0, sums[row][0]);
        _mm512_mask_storeu_ps(out + 16, mask1, sums[row][1]);
    }
}

template <class Read>
inline constexpr TileKernels tile_kernels{
    {&multiply_row<Read>, &multiply_tile<Read, 2>, &multiply_tile<Read, 3>, &multiply_tile<Read, 4>,
     &multiply_tile<Read, 5>, &multiply_tile<Read, 6>, &multiply_tile<Read, 7>, &multiply_tile<Read, 8>,
     &multiply_tile<Read, 9>, &multiply_tile<Read, 10>, &multiply_tile<Read, 11>, &multiply_tile<Read, 12>},
    12,
    Read::bytes / std::int64_t{Read::inputs},
    1,
    Read::pair};

}  // namespace detail::avx512

SHARDWISE_TARGET_END

namespace detail::avx512 {

inline void multiply_f32(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadF32>);
}
inline void multiply_bf16(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadBf16>);
}
inline void multiply_f16(ProductTask const& task) {
    run_tiles(task, tile_kernels<ReadF16>);
}

}  // namespace detail::avx512

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
