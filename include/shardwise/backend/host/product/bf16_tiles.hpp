// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/intrinsics.hpp>
#include <shardwise/backend/host/product/quant_inline.hpp>
#include <shardwise/backend/host/product/tile_shapes.hpp>
#include <shardwise/core/checked.hpp>

#include <cstdint>

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail::amx {

/// Rows of a tile, and of the two that are multiplied by two panels together.
inline constexpr std::int64_t tile_rows = 16;
inline constexpr std::int64_t pair_rows = 2 * tile_rows;
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

}  // namespace detail::amx

SHARDWISE_TARGET_END

}  // namespace shardwise::inline SHARDWISE_NAMESPACE

#endif
