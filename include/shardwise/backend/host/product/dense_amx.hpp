// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/ask_ahead.hpp>
#include <shardwise/backend/host/product/dense_tiles.hpp>
#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
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

/// Rows of a tile, and of the two that are multiplied by two panels together.
inline constexpr std::int64_t tile_rows = 16;
inline constexpr std::int64_t pair_rows = 2 * tile_rows;
/// Rows, panels and steps that are worked on together: their results (768 KiB) and weights (768 KiB) stay in a second-level cache
/// of 2 MiB, the activations of a pair's steps (24 KiB) in the first level.
inline constexpr std::int64_t block_rows = 256;
inline constexpr std::int64_t block_panels = 48;
inline constexpr std::int64_t block_steps = 16;
inline constexpr std::int64_t pair_values = 12;

/// The tiles: sums of two tiles of rows by two panels, activations of the rows, weights of the panels.
inline constexpr int sum_tile = 0;
inline constexpr int value_tile = 4;
inline constexpr int weight_tile = 6;

/// Tiles for so many rows: at most 16 in one tile, more in two.
[[nodiscard]] inline TileShapes tile_shapes(std::int64_t rows) {
    TileShapes shapes;
    auto const set = [&](int tile, std::int64_t tile_rows_) {
        shapes.rows[tile] = static_cast<std::uint8_t>(tile_rows_);
        shapes.row_bytes[tile] = 64;
    };
    bool const has_two = rows > tile_rows;
    auto const first = has_two ? ceil_divide(rows, 2) : rows;
    for (int panel = 0; panel < 2; ++panel) {
        set(sum_tile + panel, first);
        if (has_two) set(sum_tile + 2 + panel, rows - first);
        set(weight_tile + panel, tile_rows);
    }
    set(value_tile, first);
    if (has_two) set(value_tile + 1, rows - first);
    return shapes;
}

/// Bytes of a row's activations in `pieces` pieces.
template <int pieces>
[[nodiscard]] inline std::int64_t prepared_bytes(std::int64_t inputs) {
    return ceil_divide(inputs, step_inputs) * pieces * value_bytes;
}

}  // namespace detail::amx

SHARDWISE_TARGET_BEGIN_AMX

namespace detail::amx {

/// The processor's tiles. `tests/backend/dense_amx_test.cpp` has others, which are memory. g++ takes the number of a tile as it is
/// written.
struct Tiles {
    SHARDWISE_ALWAYS_INLINE void configure(TileShapes const& shapes) { _tile_loadconfig(&shapes); }
    SHARDWISE_ALWAYS_INLINE void release() { _tile_release(); }
    template <int tile>
    SHARDWISE_ALWAYS_INLINE void load(void const* from, std::int64_t stride) {
        static_assert(tile >= sum_tile && tile < weight_tile + 2);
        if constexpr (tile == 0) _tile_loadd(0, from, stride);
        if constexpr (tile == 1) _tile_loadd(1, from, stride);
        if constexpr (tile == 2) _tile_loadd(2, from, stride);
        if constexpr (tile == 3) _tile_loadd(3, from, stride);
        if constexpr (tile == 4) _tile_loadd(4, from, stride);
        if constexpr (tile == 5) _tile_loadd(5, from, stride);
        if constexpr (tile == 6) _tile_loadd(6, from, stride);
        if constexpr (tile == 7) _tile_loadd(7, from, stride);
    }
    template <int tile>
    SHARDWISE_ALWAYS_INLINE void store(void* to, std::int64_t stride) {
        static_assert(tile >= sum_tile && tile < value_tile);
        if constexpr (tile == 0) _tile_stored(0, to, stride);
        if constexpr (tile == 1) _tile_stored(1, to, stride);
        if constexpr (tile == 2) _tile_stored(2, to, stride);
        if constexpr (tile == 3) _tile_stored(3, to, stride);
    }
    template <int tile>
    SHARDWISE_ALWAYS_INLINE void clear() {
        static_assert(tile >= sum_tile && tile < value_tile);
        if constexpr (tile == 0) _tile_zero(0);
        if constexpr (tile == 1) _tile_zero(1);
        if constexpr (tile == 2) _tile_zero(2);
        if constexpr (tile == 3) _tile_zero(3);
    }
    /// sums += values * weights, pairs of bf16.
    template <int sums>
    SHARDWISE_ALWAYS_INLINE void add_products() {
        if constexpr (sums == 0) _tile_dpbf16ps(0, 4, 6);
        if constexpr (sums == 1) _tile_dpbf16ps(1, 4, 7);
        if constexpr (sums == 2) _tile_dpbf16ps(2, 5, 6);
        if constexpr (sums == 3) _tile_dpbf16ps(3, 5, 7);
    }
};

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
            auto const mask = static_cast<__mmask16>(left >= 16 ? 0xffffU : left <= 0 ? 0U : (1U << left) - 1U);
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

/// Writes a row step by step, rounded to 32 bf16 each, to even where two are as near. Zeros fill the last step.
inline void prepare_rounded(float const* row, std::int64_t inputs, std::byte* prepared) {
    for (std::int64_t k = 0; k < round_up(inputs, step_inputs); k += 16, prepared += value_bytes / 2) {
        auto const left = inputs - k;
        auto const mask = static_cast<__mmask16>(left >= 16 ? 0xffffU : left <= 0 ? 0U : (1U << left) - 1U);
        auto const rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, row + k));
        std::memcpy(prepared, &rounded, sizeof rounded);
    }
}

/// Copies a step's weights, at most 32 inputs, whose first may be the second of a pair that shares words; zeros fill it up.
inline void copy_step(std::byte const* from, bool begins_within, std::int64_t inputs, std::byte* to) {
    __m512i const lower = _mm512_set1_epi32(0xffff);
    for (std::int64_t k = 0; k < step_inputs; k += 2, from += 64, to += 64) {
        __m512i words = _mm512_setzero_si512();
        if (k < inputs) {
            words = _mm512_load_si512(from);
            bool const has_second = k + 1 < inputs;
            if (begins_within) {
                words = _mm512_srli_epi32(words, 16);
                if (has_second) words = _mm512_or_si512(words, _mm512_slli_epi32(_mm512_load_si512(from + 64), 16));
            } else if (!has_second) {
                words = _mm512_and_si512(words, lower);
            }
        }
        _mm512_store_si512(to, words);
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
    explicit TileProduct(ProductTask const& task)
        : task_(task), steps_(ceil_divide(task.inputs.size(), step_inputs)), is_streamed_(task.rows <= pair_rows) {}

    [[gnu::noinline]] void run() {
        auto const panels = task_.last_panel - task_.first_panel;
        auto const panel_blocks = ceil_divide(panels, block_panels);
        for (std::int64_t row = 0; row < task_.rows; row += block_rows) {
            auto const rows = std::min(block_rows, task_.rows - row);
            if (is_streamed_) {
                run_block(row, rows, task_.first_panel, task_.last_panel);
                continue;
            }
            for (std::int64_t block = 0; block < panel_blocks; ++block) {
                auto const first = task_.first_panel + panels / 2 * block / panel_blocks * 2;
                auto const last = block + 1 == panel_blocks
                                      ? task_.last_panel
                                      : task_.first_panel + panels / 2 * (block + 1) / panel_blocks * 2;
                run_block(row, rows, first, last);
            }
        }
        tiles_.release();
    }

private:
    /// Some rows, at most two tiles of them, by two panels and some steps.
    struct Place {
        std::int64_t row = 0;
        std::int64_t rows = 0;
        std::int64_t panel = 0;
        std::int64_t first_step = 0;
        std::int64_t last_step = 0;
    };

    void run_block(std::int64_t first_row, std::int64_t rows, std::int64_t first_panel, std::int64_t last_panel) {
        auto const outer = is_streamed_ ? steps_ : block_steps;
        auto const inner = is_streamed_ ? steps_ : std::int64_t{pair_values / pieces};
        auto const pairs = ceil_divide(rows, pair_rows);
        for (std::int64_t begin = 0; begin < steps_; begin += outer) {
            auto const end = std::min(begin + outer, steps_);
            for (std::int64_t pair = 0; pair < pairs; ++pair) {
                Place place{first_row + rows * pair / pairs, rows * (pair + 1) / pairs - rows * pair / pairs};
                configure(place.rows);
                for (auto step = begin; step < end; step += inner) {
                    place.first_step = step;
                    place.last_step = std::min(step + inner, end);
                    for (place.panel = first_panel; place.panel < last_panel; place.panel += 2) {
                        place.rows > tile_rows ? multiply<2>(place) : multiply<1>(place);
                    }
                }
            }
        }
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
        copy_step(at, begin % 2 != 0, inputs, copied_[copy]);
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
        if (place.first_step == 0 || outputs == 0) {
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
                                                   .prepare = &prepare_rounded,
                                                   .multiply = &multiply_bf16<Tiles, 1>,
                                                   .begins_anywhere = true,
                                                   .prepared_at_once = prepared_of_a_prompt};

}  // namespace detail::amx

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
