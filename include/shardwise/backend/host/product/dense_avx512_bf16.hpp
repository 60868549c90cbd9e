// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/backend/host/product/registers_avx512.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/core/checked.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_TARGET_BEGIN_AVX512_BF16

namespace detail::avx512_bf16 {

#include <shardwise/backend/host/product/dense_avx512_tiles.inc>

/// Prepared rows are filled up with zeros to whole registers of bf16.
inline constexpr std::int64_t filled_inputs = 32;

/// Writes a row rounded to bf16, to even where two are as near; zeros fill the last register.
inline void prepare_rounded(float const* row, std::int64_t inputs, std::byte* prepared) {
    for (std::int64_t k = 0; k < round_up(inputs, filled_inputs); k += 16, prepared += 32) {
        auto const left = inputs - k;
        auto const mask = avx512::first_of_16(left);
        auto const rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, row + k));
        std::memcpy(prepared, &rounded, sizeof rounded);
    }
}

/// Copies the weights of `inputs` inputs of a panel, whose first may be the second of a pair that shares words, as pairs that begin
/// with the first; zeros fill them up to `filled` inputs.
inline void copy_pairs(std::byte const* from, bool begins_within, std::int64_t inputs, std::int64_t filled,
                       std::byte* to) {
    for (std::int64_t k = 0; k < filled; k += 2, from += 64, to += 64) {
        __m512i words = _mm512_setzero_si512();
        if (k < inputs) {
            words = _mm512_load_si512(from);
            bool const has_second = k + 1 < inputs;
            if (begins_within) {
                words = _mm512_srli_epi32(words, 16);
                if (has_second) words = _mm512_or_si512(words, _mm512_slli_epi32(_mm512_load_si512(from + 64), 16));
            } else if (!has_second) {
                words = _mm512_and_si512(words, _mm512_set1_epi32(0xffff));
            }
        }
        _mm512_store_si512(to, words);
    }
}

/// Pairs of bf16, which tiles take for one input: a word of the panel by a word of prepared activations.
struct ReadPairs {
    static constexpr unsigned inputs = 1;
    static constexpr std::int64_t pair = 1;
    static constexpr int chains = 2;
    static constexpr std::int64_t bytes = 64;
    static void read(std::byte const* from, __m512* values) { values[0] = _mm512_load_ps(from); }
    static void read_last(std::byte const*, __m512*) {}
    static __m512 add(__m512 sum, __m512 factor, __m512 value) {
        return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(factor), reinterpret_cast<__m512bh>(value));
    }
};

}  // namespace detail::avx512_bf16

SHARDWISE_TARGET_END

namespace detail::avx512_bf16 {

/// Bytes of a row's activations.
[[nodiscard]] inline std::int64_t prepared_bytes(std::int64_t inputs) {
    return round_up(inputs, filled_inputs) * 2;
}

/// A product by a range whose pairs are not those of the weight: panels are copied, a sum's inputs at a time.
///
/// Memory  16 KiB of stack
inline void multiply_copied(ProductTask const& task) {
    alignas(panel_alignment) std::byte copied[tile_inputs * ReadPairs::bytes];
    auto const& range = task.inputs;
    for (auto panel = task.first_panel; panel < task.last_panel; ++panel) {
        TileTask tile{.panels = {copied, copied}};
        tile.outputs[0] = std::min(task.weight.outputs - panel * panel_outputs, panel_outputs);
        for (std::int64_t k = 0; k < range.size(); k += 2 * tile_inputs) {
            auto const begin = range.begin + k;
            auto const inputs = std::min(2 * tile_inputs, range.size() - k);
            copy_pairs(task.weight.data + panel * task.weight.stride + begin / 2 * ReadPairs::bytes, begin % 2 != 0,
                       inputs, inputs, copied);
            tile.inputs = ceil_divide(inputs, 2);
            tile.accumulates = k > 0;
            for (std::int64_t row = 0; row < task.rows; ++row) {
                tile.in = reinterpret_cast<float const*>(task.prepared + row * task.prepared_stride) + k / 2;
                tile.out = task.out + row * task.out_stride + panel * panel_outputs;
                multiply_row<ReadPairs>(tile);
            }
        }
    }
}

/// Each element is the sum, in order, of the sums of tile_inputs pairs in order, as `vdpbf16ps` adds a pair.
inline void multiply_rounded(ProductTask const& task) {
    auto const& range = task.inputs;
    if (range.size() == 0) return clear_results(task);
    // What fills a weight's last pair is zero; what else shares a pair with the range may be anything.
    bool const has_whole_pairs = range.begin % 2 == 0 && (range.size() % 2 == 0 || range.end == task.weight.inputs);
    if (!has_whole_pairs) return multiply_copied(task);
    auto pairs = task;
    pairs.weight.inputs = ceil_divide(task.weight.inputs, 2);
    pairs.inputs = {range.begin / 2, ceil_divide(range.end, 2)};
    pairs.in = reinterpret_cast<float const*>(task.prepared);
    pairs.in_stride = task.prepared_stride / std::int64_t{sizeof(float)};
    run_tiles(pairs, tile_kernels<ReadPairs>);
}

/// Products of bf16 weights by activations rounded to bf16. With u = 2^-24 and n inputs, each element differs from the exact sum of
/// what was rounded by no more than
///   (512 + ceil(n / 512)) u sum |x w| + 2^-124 sum (|x| + |w| + 1)
/// the last because `vdpbf16ps` takes what is below 2^-126 for zero (Intel SDM, volume 2).
inline constexpr ProductKernel rounded_kernel{.prepared_bytes = &prepared_bytes,
                                              .prepare = &prepare_rounded,
                                              .multiply = &multiply_rounded,
                                              .begins_anywhere = true,
                                              .prepared_at_once = prepared_of_a_prompt};

}  // namespace detail::avx512_bf16

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
