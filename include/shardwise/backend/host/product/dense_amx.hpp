// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/bf16_tiles.hpp>
#include <shardwise/backend/host/product/dense_avx512_bf16.hpp>
#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/backend/host/product/registers_avx512.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/backend/host/product/tile_shapes.hpp>
#include <shardwise/core/checked.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail::amx {

/// Inputs of a step: what one product of tiles sums.
inline constexpr std::int64_t step_inputs = 32;
/// Bytes of a step's weights of a panel, and of its activations of a row and piece.
inline constexpr std::int64_t weight_bytes = step_inputs * panel_outputs * 2;
inline constexpr std::int64_t value_bytes = step_inputs * 2;
/// An activation of 24 bits is the sum of three bf16 of eight bits each.
inline constexpr int full_pieces = 3;

/// Steps and panels that are worked on together where there are more rows than a pair of tiles has: their weights (1 to 1.5 MiB) stay
/// in a second-level cache of 2 MiB, from where the activations of a pair of tiles come as well. Results go to memory and back once for
/// each block: fewer steps cost more (bench/results/2026-11-26-amx.md).
template <int pieces>
inline constexpr std::int64_t block_steps = pieces == 1 ? 128 : 64;
template <int pieces>
inline constexpr std::int64_t block_panels = pieces == 1 ? 8 : 24;

/// Bytes of a row's activations in `pieces` pieces.
template <int pieces>
[[nodiscard]] inline std::int64_t prepared_bytes(std::int64_t inputs) {
    return ceil_divide(inputs, step_inputs) * pieces * value_bytes;
}

}  // namespace detail::amx

SHARDWISE_TARGET_BEGIN_AMX

namespace detail::amx {

/// Writes 16 values as bf16, the lower halves of their words cut off.
SHARDWISE_ALWAYS_INLINE void store_upper_halves(__m512i values, std::byte* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_srli_epi32(values, 16)));
}

/// Writes a row step by step, each as three pieces of 32 bf16 whose sum each activation is: its first eight bits, the next eight,
/// the last. An infinity is its first piece; what is not a number stays so. Zeros fill the last step.
inline void prepare_full(float const* row, std::int64_t inputs, std::byte* prepared) {
    __m512i const upper = _mm512_set1_epi32(-65536);
    for (std::int64_t k = 0; k < inputs; k += step_inputs, prepared += full_pieces * value_bytes) {
        for (std::int64_t half = 0; half < 2; ++half) {
            auto const left = inputs - k - half * 16;
            auto const mask = avx512::first_of_16(left);
            __m512 const value = _mm512_maskz_loadu_ps(mask, row + k + half * 16);
            // Both kinds of NaN; the infinities.
            auto const is_nan = _mm512_fpclass_ps_mask(value, 0x81);
            auto const is_infinite = _mm512_fpclass_ps_mask(value, 0x18);
            auto const is_finite = static_cast<__mmask16>(~(is_nan | is_infinite));
            __m512i first = _mm512_and_si512(_mm512_castps_si512(value), upper);
            // Bits that are cut off may be all that makes it another thing than an infinity.
            first = _mm512_mask_or_epi32(first, is_nan, first, _mm512_set1_epi32(1 << 22));
            __m512 const rest = _mm512_maskz_sub_ps(is_finite, value, _mm512_castsi512_ps(first));
            __m512i const second = _mm512_and_si512(_mm512_castps_si512(rest), upper);
            __m512 const third = _mm512_sub_ps(rest, _mm512_castsi512_ps(second));
            auto* const to = prepared + half * 32;
            store_upper_halves(first, to);
            store_upper_halves(second, to + value_bytes);
            store_upper_halves(_mm512_castps_si512(third), to + 2 * value_bytes);
        }
    }
}

/// A product by bf16 weights whose activations are prepared in `pieces` pieces. A step's products by a piece are summed as
/// `tdpbf16ps` does it (Intel SDM, volume 2): those of even inputs one after another, those of odd ones, then both; that is added to
/// the element, piece after piece and step after step. Steps are counted from the first input of the range.
///
/// Memory  3 KiB of stack
template <class Tiles, int pieces>
class TileProduct {
public:
    /// With `accumulates` it is added to what `out` holds.
    explicit TileProduct(ProductTask const& task, bool accumulates = false)
        : task_(task),
          steps_(ceil_divide(task.inputs.size(), step_inputs)),
          accumulates_(accumulates),
          is_streamed_(task.rows <= pair_rows) {}

    [[gnu::noinline]] void run() {
        if (task_.rows <= pair_rows) {
            run_block({0, task_.rows, task_.first_panel, task_.last_panel, 0, steps_});
        } else {
            run_blocks();
        }
        tiles_.release();
    }

private:
    /// Some rows by some panels and steps.
    struct Block {
        std::int64_t first_row;
        std::int64_t last_row;
        std::int64_t first_panel;
        std::int64_t last_panel;
        std::int64_t first_step;
        std::int64_t last_step;
    };
    /// At most two tiles of rows by two panels.
    struct Place {
        std::int64_t row = 0;
        std::int64_t panel = 0;
        std::int64_t first_step = 0;
        std::int64_t last_step = 0;
    };

    void run_blocks() {
        // Pairs of panels, an odd one at the end.
        auto const panel_pairs = ceil_divide(task_.last_panel - task_.first_panel, 2);
        auto const panel_blocks = ceil_divide(panel_pairs * 2, block_panels<pieces>);
        auto const step_blocks = ceil_divide(steps_, block_steps<pieces>);
        auto const row_pairs = ceil_divide(task_.rows, pair_rows);
        for (std::int64_t i = 0; i < panel_blocks; ++i) {
            Block block{};
            block.first_panel = task_.first_panel + panel_pairs * i / panel_blocks * 2;
            block.last_panel = std::min(task_.first_panel + panel_pairs * (i + 1) / panel_blocks * 2, task_.last_panel);
            for (std::int64_t j = 0; j < step_blocks; ++j) {
                block.first_step = steps_ * j / step_blocks;
                block.last_step = steps_ * (j + 1) / step_blocks;
                for (std::int64_t pair = 0; pair < row_pairs; ++pair) {
                    block.first_row = task_.rows * pair / row_pairs;
                    block.last_row = task_.rows * (pair + 1) / row_pairs;
                    run_block(block);
                }
            }
        }
    }

    /// All panels of a block, by a pair of tiles of rows at most.
    void run_block(Block const& block) {
        auto const rows = block.last_row - block.first_row;
        configure(rows);
        Place place{block.first_row, 0, block.first_step, block.last_step};
        for (place.panel = block.first_panel; place.panel < block.last_panel; place.panel += 2)
            rows > tile_rows ? multiply<2>(place) : multiply<1>(place);
    }

    void configure(std::int64_t rows) {
        if (rows == shaped_rows_) return;
        shaped_rows_ = rows;
        shapes_ = tile_shapes(rows);
        tiles_.configure(shapes_);
    }

    template <int row_tiles>
    [[gnu::noinline]] void multiply(Place const& place) {
        begin_sums<row_tiles>(place);
        bool const has_second = place.panel + 1 < task_.last_panel;
        auto const* values =
            task_.prepared + place.row * task_.prepared_stride + place.first_step * pieces * value_bytes;
        auto const second_values = shapes_.rows[value_tile] * task_.prepared_stride;
        for (auto step = place.first_step; step < place.last_step; ++step) {
            auto const* const first = weights_of(place.panel, step, 0);
            // A second panel that is not there is computed as the first and not written.
            auto const* const second = has_second ? weights_of(place.panel + 1, step, 1) : first;
            tiles_.template load<weight_tile>(first, 64);
            tiles_.template load<weight_tile + 1>(second, 64);
            if (is_streamed_) {
                ask_ahead<weight_bytes>(first);
                ask_ahead<weight_bytes>(second);
            }
            SHARDWISE_UNROLL
            for (int piece = 0; piece < pieces; ++piece, values += value_bytes) {
                tiles_.template load<value_tile>(values, task_.prepared_stride);
                if constexpr (row_tiles == 2)
                    tiles_.template load<value_tile + 1>(values + second_values, task_.prepared_stride);
                tiles_.template add_products<0>();
                tiles_.template add_products<1>();
                if constexpr (row_tiles == 2) {
                    tiles_.template add_products<2>();
                    tiles_.template add_products<3>();
                }
            }
        }
        end_sums<row_tiles>(place);
    }

    /// The weights of a step: where they are, or a copy where a tile would read others, too.
    SHARDWISE_ALWAYS_INLINE std::byte const* weights_of(std::int64_t panel, std::int64_t step, int copy) {
        auto const begin = task_.inputs.begin + step * step_inputs;
        auto const inputs = task_.inputs.end - begin;
        auto const* const at = task_.weight.data + panel * task_.weight.stride + begin / 2 * 64;
        if (begin % 2 == 0 && inputs >= step_inputs) return at;
        avx512_bf16::copy_pairs(at, begin % 2 != 0, std::min(inputs, step_inputs), step_inputs, copied_[copy]);
        return copied_[copy];
    }

    [[nodiscard]] std::int64_t outputs_of(std::int64_t panel) const {
        if (panel >= task_.last_panel) return 0;
        return std::min(task_.weight.outputs - panel * panel_outputs, panel_outputs);
    }

    template <int row_tiles>
    void begin_sums(Place const& place) {
        begin_tile<0>(place, 0);
        begin_tile<1>(place, 1);
        if constexpr (row_tiles == 2) {
            begin_tile<2>(place, 0);
            begin_tile<3>(place, 1);
        }
    }
    template <int row_tiles>
    void end_sums(Place const& place) {
        end_tile<0>(place, 0);
        end_tile<1>(place, 1);
        if constexpr (row_tiles == 2) {
            end_tile<2>(place, 0);
            end_tile<3>(place, 1);
        }
    }
    /// Where a tile of sums belongs.
    template <int tile>
    [[nodiscard]] float* results(Place const& place, int panel) const {
        auto const row = place.row + (tile >= 2 ? shapes_.rows[sum_tile] : 0);
        return task_.out + row * task_.out_stride + (place.panel + panel) * panel_outputs;
    }
    template <int tile>
    void begin_tile(Place const& place, int panel) {
        auto const outputs = outputs_of(place.panel + panel);
        if ((place.first_step == 0 && !accumulates_) || outputs == 0) {
            tiles_.template clear<tile>();
        } else if (outputs == panel_outputs) {
            tiles_.template load<tile>(results<tile>(place, panel), task_.out_stride * 4);
        } else {
            auto const* from = results<tile>(place, panel);
            for (int row = 0; row < shapes_.rows[tile]; ++row, from += task_.out_stride)
                std::memcpy(sums_[row], from, static_cast<std::size_t>(outputs) * sizeof(float));
            tiles_.template load<tile>(sums_, 64);
        }
    }
    template <int tile>
    void end_tile(Place const& place, int panel) {
        auto const outputs = outputs_of(place.panel + panel);
        if (outputs == 0) return;
        auto* to = results<tile>(place, panel);
        if (outputs == panel_outputs) {
            tiles_.template store<tile>(to, task_.out_stride * 4);
            return;
        }
        tiles_.template store<tile>(sums_, 64);
        for (int row = 0; row < shapes_.rows[tile]; ++row, to += task_.out_stride)
            std::memcpy(to, sums_[row], static_cast<std::size_t>(outputs) * sizeof(float));
    }

    ProductTask const& task_;
    std::int64_t steps_;
    bool accumulates_;
    /// Weights stream past once.
    bool is_streamed_;
    std::int64_t shaped_rows_ = 0;
    Tiles tiles_;
    TileShapes shapes_;
    alignas(64) std::byte copied_[2][weight_bytes];
    alignas(64) float sums_[tile_rows][panel_outputs] = {};
};

}  // namespace detail::amx

SHARDWISE_TARGET_END

namespace detail::amx {

template <class Tiles, int pieces>
inline void multiply_bf16(ProductTask const& task) {
    if (task.inputs.size() == 0) return clear_results(task);
    TileProduct<Tiles, pieces>(task).run();
}

/// Products by bf16 weights, for any number of rows. With u = 2^-24 and n inputs, each element differs from the exact sum by no more
/// than
///   full:     (3 ceil(n / 32) + 17) u sum |x w| + 2^-124 sum (|x| + |w| + 1)
///   rounded:  (ceil(n / 32) + 17) u sum |x w| + 2^-9 sum |x w| + 2^-124 sum (|x| + |w| + 1)
/// the last because tiles take what is below 2^-126 for zero. An infinite weight may make its results NaN.
template <class Tiles = Tiles>
inline constexpr ProductKernel full_bf16_kernel{.prepared_bytes = &prepared_bytes<full_pieces>,
                                                .prepare = &prepare_full,
                                                .multiply = &multiply_bf16<Tiles, full_pieces>,
                                                .begins_anywhere = true,
                                                .prepared_at_once = prepared_of_a_prompt};
template <class Tiles = Tiles>
inline constexpr ProductKernel rounded_bf16_kernel{.prepared_bytes = &prepared_bytes<1>,
                                                   .prepare = &avx512_bf16::prepare_rounded,
                                                   .multiply = &multiply_bf16<Tiles, 1>,
                                                   .begins_anywhere = true,
                                                   .prepared_at_once = prepared_of_a_prompt};

}  // namespace detail::amx

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
