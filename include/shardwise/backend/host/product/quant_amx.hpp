// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_avx512.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/backend/host/product/rounded_record.hpp>
#include <shardwise/backend/host/product/tile_shapes.hpp>

#include <cstddef>
#include <cstdint>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail::quant_amx {

/// Rows of a tile of activations.
inline constexpr int tile_rows = 16;
/// The tiles: sums of the two parts of a block, codes and activations of these.
inline constexpr int sum_tile = 0;
inline constexpr int code_tile = 2;
inline constexpr int value_tile = 4;

/// Tiles for blocks of `parts` parts: codes [inputs / 4, 16 outputs of 4 bytes], activations [16, inputs], sums [16, 16].
[[nodiscard]] inline TileShapes tile_shapes(int parts) {
    TileShapes shapes;
    auto const bytes = 32 / parts;
    for (int part = 0; part < parts; ++part) {
        shapes.rows[sum_tile + part] = tile_rows;
        shapes.row_bytes[sum_tile + part] = 64;
        shapes.rows[code_tile + part] = static_cast<std::uint8_t>(bytes / 4);
        shapes.row_bytes[code_tile + part] = 64;
        shapes.rows[value_tile + part] = tile_rows;
        shapes.row_bytes[value_tile + part] = static_cast<std::uint16_t>(bytes);
    }
    return shapes;
}

}  // namespace detail::quant_amx

SHARDWISE_TARGET_BEGIN_AMX

namespace detail::quant_amx {

using quant_avx512_bf16::RoundedBlock;
using quant_avx512_bf16::RoundedScaling;
using quant_avx512_bf16::RoundedSums;

/// The processor's tiles. `tests/backend/amx_test.cpp` has others, which are memory. g++ takes the number of a tile as it is written.
struct Tiles {
    SHARDWISE_ALWAYS_INLINE void configure(TileShapes const& shapes) { _tile_loadconfig(&shapes); }
    SHARDWISE_ALWAYS_INLINE void release() { _tile_release(); }
    template <int tile>
    SHARDWISE_ALWAYS_INLINE void load(void const* from, std::int64_t stride) {
        static_assert(tile >= code_tile && tile < value_tile + 2);
        if constexpr (tile == 2) _tile_loadd(2, from, stride);
        if constexpr (tile == 3) _tile_loadd(3, from, stride);
        if constexpr (tile == 4) _tile_loadd(4, from, stride);
        if constexpr (tile == 5) _tile_loadd(5, from, stride);
    }
    template <int tile>
    SHARDWISE_ALWAYS_INLINE void store(void* to, std::int64_t stride) {
        static_assert(tile == sum_tile || tile == sum_tile + 1);
        if constexpr (tile == 0) _tile_stored(0, to, stride);
        if constexpr (tile == 1) _tile_stored(1, to, stride);
    }
    template <int tile>
    SHARDWISE_ALWAYS_INLINE void clear() {
        static_assert(tile == sum_tile || tile == sum_tile + 1);
        if constexpr (tile == 0) _tile_zero(0);
        if constexpr (tile == 1) _tile_zero(1);
    }
    /// sums += values (signed bytes) * codes (unsigned bytes).
    template <int sums, int values, int codes>
    SHARDWISE_ALWAYS_INLINE void add_products() {
        static_assert(values == sums + value_tile && codes == sums + code_tile);
        if constexpr (sums == 0) _tile_dpbsud(0, 4, 2);
        if constexpr (sums == 1) _tile_dpbsud(1, 5, 3);
    }
};

/// Adds blocks to 16 rows at a time by tiles, to the others by vectors: the sums of whole numbers are the same.
template <class Tiles>
class TileUnit {
public:
    template <int parts>
    [[gnu::noinline]] void begin() {
        shapes_ = tile_shapes(parts);
        tiles_.configure(shapes_);
    }
    [[gnu::noinline]] void end() { tiles_.release(); }

    template <RoundedScaling scaling, int joined>
    [[gnu::noinline]] void add(RoundedBlock const& block, RoundedSums all, std::int64_t rows) {
        constexpr bool has_two = scaling == RoundedScaling::two;
        if (rows >= tile_rows) {
            tiles_.template load<code_tile>(block.codes, 64);
            if constexpr (has_two) tiles_.template load<code_tile + 1>(block.codes + 4 * 64, 64);
        }
        for (; rows >= tile_rows; rows -= tile_rows) {
            auto const* const values = all.prepared + offsetof(RoundedRecord, values);
            tiles_.template load<value_tile>(values, all.stride);
            tiles_.template clear<sum_tile>();
            tiles_.template add_products<sum_tile, value_tile, code_tile>();
            tiles_.template store<sum_tile>(dots_[0], 64);
            if constexpr (has_two) {
                tiles_.template load<value_tile + 1>(values + 16, all.stride);
                tiles_.template clear<sum_tile + 1>();
                tiles_.template add_products<sum_tile + 1, value_tile + 1, code_tile + 1>();
                tiles_.template store<sum_tile + 1>(dots_[1], 64);
            }
            scale_dots<scaling>(block, all);
            all.prepared += tile_rows * all.stride;
            all.sums += tile_rows * panel_outputs;
        }
        quant_avx512_bf16::add_rounded_block<scaling, joined>(block, all, rows);
    }

private:
    /// As add_rounded_part of product/quant_rounded.inc scales them.
    template <RoundedScaling scaling>
    SHARDWISE_ALWAYS_INLINE void scale_dots(RoundedBlock const& block, RoundedSums const& all) {
        __m512 const scale = _mm512_load_ps(block.scales[0]);
        [[maybe_unused]] __m512 second = scale;
        if constexpr (scaling == RoundedScaling::two) second = _mm512_load_ps(block.scales[1]);
        [[maybe_unused]] __m512 minimum = scale;
        if constexpr (scaling == RoundedScaling::minima) minimum = _mm512_load_ps(block.minima);
        for (int row = 0; row < tile_rows; ++row) {
            auto const& record = *reinterpret_cast<RoundedRecord const*>(all.prepared + row * all.stride);
            __m512 const unit = _mm512_set1_ps(record.scale);
            __m512i const start =
                scaling == RoundedScaling::minima ? _mm512_setzero_si512() : _mm512_set1_epi32(record.starts[0]);
            __m512 const dots = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_load_si512(dots_[0][row]), start));
            __m512 sum = _mm512_load_ps(all.sums + row * panel_outputs);
            if constexpr (scaling == RoundedScaling::row) {
                sum = _mm512_fmadd_ps(dots, unit, sum);
            } else {
                sum = _mm512_fmadd_ps(_mm512_mul_ps(dots, unit), scale, sum);
            }
            if constexpr (scaling == RoundedScaling::two) {
                __m512i const other =
                    _mm512_add_epi32(_mm512_load_si512(dots_[1][row]), _mm512_set1_epi32(record.starts[1]));
                sum = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(other), unit), second, sum);
            }
            if constexpr (scaling == RoundedScaling::minima)
                sum = _mm512_fmadd_ps(_mm512_set1_ps(record.sum), minimum, sum);
            _mm512_store_ps(all.sums + row * panel_outputs, sum);
        }
    }

    Tiles tiles_;
    TileShapes shapes_;
    alignas(64) std::int32_t dots_[2][tile_rows][panel_outputs];
};

}  // namespace detail::quant_amx

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
