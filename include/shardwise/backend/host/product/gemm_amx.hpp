// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/dense_amx.hpp>
#include <shardwise/backend/host/product/dense_gemm.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/backend/host/product/registers_avx512.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail::amx {

/// What is packed at a time of the factors of a product of two plain matrices, and stays in a second-level cache of 2 MiB: so many
/// panels of the second one and rows of the first, by so many inputs.
inline constexpr std::int64_t packed_panels = 32;
inline constexpr std::int64_t packed_rows = 128;
inline constexpr std::int64_t packed_inputs = 512;
/// Distance of packed rows: those of a tile do not fall into the same sets of a first-level cache.
inline constexpr std::int64_t packed_row_bytes = packed_inputs * 2 + 64;

}  // namespace detail::amx

SHARDWISE_TARGET_BEGIN_AMX

namespace detail::amx {

/// 32 neighbours rounded to bf16: 16 pairs. Zeros follow the first `count`.
SHARDWISE_ALWAYS_INLINE __m512i neighbour_pairs(float const* from, std::int64_t count) {
    auto const first = _mm512_maskz_loadu_ps(avx512::first_of_16(count), from);
    auto const second = _mm512_maskz_loadu_ps(avx512::first_of_16(count - 16), from + 16);
    auto const rounded = _mm512_cvtne2ps_pbh(second, first);
    __m512i out;
    std::memcpy(&out, &rounded, sizeof out);
    return out;
}

/// 16 floats rounded to bf16, each in the lower half of a word.
SHARDWISE_ALWAYS_INLINE __m512i rounded_words(float const* from, __mmask16 mask) {
    auto const rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from));
    __m256i halves;
    std::memcpy(&halves, &rounded, sizeof halves);
    return _mm512_cvtepu16_epi32(halves);
}

/// Of 16 columns the pair of the inputs k and k + 1, which are rows of memory. Zeros follow the first `columns`, and the last of
/// `inputs`.
SHARDWISE_ALWAYS_INLINE __m512i row_pairs(GemmFactor const& factor, std::int64_t k, std::int64_t inputs,
                                          std::int64_t column, std::int64_t columns) {
    if (inputs <= 0) return _mm512_setzero_si512();
    auto const mask = avx512::first_of_16(columns);
    auto const even = rounded_words(reinterpret_cast<float const*>(factor.at(k, column)), mask);
    if (inputs == 1) return even;
    auto const odd = rounded_words(reinterpret_cast<float const*>(factor.at(k + 1, column)), mask);
    return _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
}

/// Rows [row, row + rows) and inputs [k, k + count) of the first factor, rounded; zeros fill the last step.
///
/// Shapes  packed [rows, round_up(count, step_inputs)] of bf16, rows packed_row_bytes apart
inline void pack_rows(GemmFactor const& a, std::int64_t row, std::int64_t rows, std::int64_t k, std::int64_t count,
                      std::byte* packed) {
    if (!a.is_transposed) {
        for (std::int64_t i = 0; i < rows; ++i, packed += packed_row_bytes)
            avx512_bf16::prepare_rounded(reinterpret_cast<float const*>(a.at(row + i, k)), count, packed);
        return;
    }
    for (std::int64_t j = 0; j < count; j += step_inputs) {
        for (std::int64_t i = 0; i < rows; i += 16) {
            __m512 pairs[16];
            SHARDWISE_UNROLL
            for (int pair = 0; pair < 16; ++pair)
                pairs[pair] =
                    _mm512_castsi512_ps(row_pairs(a, k + j + 2 * pair, count - j - 2 * pair, row + i, rows - i));
            avx512::transpose(pairs);
            for (std::int64_t to = 0; to < std::min<std::int64_t>(rows - i, 16); ++to)
                _mm512_storeu_ps(packed + (i + to) * packed_row_bytes + j * 2, pairs[to]);
        }
    }
}

/// Columns [column, column + columns) and inputs [k, k + count) of the second factor as panels of rounded pairs; zeros fill the last
/// panel and step.
///
/// Shapes  packed [ceil(columns / panel_outputs), ceil(count / step_inputs), step_inputs / 2, panel_outputs, 2] of bf16
inline void pack_panels(GemmFactor const& b, std::int64_t column, std::int64_t columns, std::int64_t k,
                        std::int64_t count, std::byte* packed) {
    auto const steps = ceil_divide(count, step_inputs);
    if (!b.is_transposed) {
        for (std::int64_t j = 0; j < steps * step_inputs; j += 2) {
            for (std::int64_t i = 0; i < columns; i += panel_outputs) {
                auto* const to = packed + i / panel_outputs * steps * weight_bytes + j * 32;
                _mm512_store_si512(to, row_pairs(b, k + j, count - j, column + i, columns - i));
            }
        }
        return;
    }
    for (std::int64_t i = 0; i < columns; i += panel_outputs) {
        for (std::int64_t j = 0; j < count; j += step_inputs, packed += weight_bytes) {
            __m512 pairs[16];
            for (std::int64_t of = 0; of < panel_outputs; ++of) {
                pairs[of] = _mm512_setzero_ps();
                if (i + of >= columns) continue;
                auto const* const from = reinterpret_cast<float const*>(b.at(column + i + of, k + j));
                pairs[of] = _mm512_castsi512_ps(neighbour_pairs(from, count - j));
            }
            avx512::transpose(pairs);
            SHARDWISE_UNROLL
            for (int pair = 0; pair < 16; ++pair) _mm512_store_ps(packed + pair * 64, pairs[pair]);
        }
    }
}

}  // namespace detail::amx

SHARDWISE_TARGET_END

namespace detail::amx {

/// Rows [first_row, last_row) by panels [first_panel, last_panel) of a product of two matrices of floats that are rounded to bf16. Each
/// element is summed as TileProduct sums, steps counted from the first input, from what was there on where it accumulates. With
/// u = 2^-24 it differs from the exact sum of what was rounded by no more than
///   (ceil(k / 32) + 17) u sum |a b| + 2^-124 sum (|a| + |b| + 1)
///
/// Memory  656 KiB of stack
template <class Tiles = Tiles>
inline void run_rounded_gemm(GemmTask const& task, std::int64_t first_row, std::int64_t last_row,
                             std::int64_t first_panel, std::int64_t last_panel) {
    if (task.k == 0) return clear_gemm(task, first_row, last_row, first_panel, last_panel);
    alignas(64) std::byte panels[packed_panels * packed_inputs * panel_outputs * 2];
    alignas(64) std::byte rows[packed_rows * packed_row_bytes];
    for (auto block = first_panel; block < last_panel; block += packed_panels) {
        auto const column = block * panel_outputs;
        auto const columns = std::min(std::min(block + packed_panels, last_panel) * panel_outputs, task.n) - column;
        for (std::int64_t k = 0; k < task.k; k += packed_inputs) {
            auto const count = std::min(packed_inputs, task.k - k);
            // Zeros that fill the last step are multiplied, too.
            auto const filled = round_up(count, step_inputs);
            pack_panels(task.b, column, columns, k, count, panels);
            for (auto row = first_row; row < last_row; row += packed_rows) {
                ProductTask product{
                    .weight = {WeightFormat::bf16, columns, filled, 0, panels, filled / step_inputs * weight_bytes},
                    .inputs = {0, filled}};
                product.rows = std::min(packed_rows, last_row - row);
                pack_rows(task.a, row, product.rows, k, count, rows);
                product.prepared = rows;
                product.prepared_stride = packed_row_bytes;
                product.last_panel = ceil_divide(columns, panel_outputs);
                product.out = task.out + row * task.out_stride + column;
                product.out_stride = task.out_stride;
                TileProduct<Tiles, 1>(product, k > 0 || task.accumulates).run();
            }
        }
    }
}

}  // namespace detail::amx

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
