// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/tile_shapes.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace test {

/// AMX's instructions but for products, as the Intel SDM, volume 2, has them: ldtilecfg, tileloadd, tilezero, tilestored. What the
/// processor would refuse, or compute otherwise than meant, is counted.
class MemoryTiles {
public:
    static inline int faults = 0;
    static inline int products = 0;

    void configure(shardwise::detail::TileShapes const& shapes) {
        shapes_ = shapes;
        is_configured_ = shapes.palette == 1;
        for (int tile = 0; tile < 8; ++tile) fault(shapes.rows[tile] > 16 || shapes.row_bytes[tile] > 64);
        std::memset(tiles_, 0, sizeof tiles_);
    }
    void release() { is_configured_ = false; }
    template <int tile>
    void load(void const* from, std::int64_t stride) {
        check<tile>();
        std::memset(tiles_[tile], 0, sizeof tiles_[tile]);
        for (int row = 0; row < shapes_.rows[tile]; ++row)
            std::memcpy(tiles_[tile][row], static_cast<std::byte const*>(from) + row * stride, shapes_.row_bytes[tile]);
    }
    template <int tile>
    void store(void* to, std::int64_t stride) {
        check<tile>();
        for (int row = 0; row < shapes_.rows[tile]; ++row)
            std::memcpy(static_cast<std::byte*>(to) + row * stride, tiles_[tile][row], shapes_.row_bytes[tile]);
    }
    template <int tile>
    void clear() {
        check<tile>();
        std::memset(tiles_[tile], 0, sizeof tiles_[tile]);
    }

protected:
    /// Looks at the tiles of a product: sums [rows, columns], values by their rows, weights by the sums' columns.
    template <int sums, int values, int weights>
    void begin_product() {
        check<sums>();
        check<values>();
        check<weights>();
        fault(shapes_.rows[sums] != shapes_.rows[values] || shapes_.row_bytes[sums] != shapes_.row_bytes[weights]);
        fault(shapes_.row_bytes[values] != 4 * shapes_.rows[weights]);
        ++products;
    }

    shardwise::detail::TileShapes shapes_;
    std::uint8_t tiles_[8][16][64];

private:
    static void fault(bool is_one) { faults += is_one ? 1 : 0; }
    template <int tile>
    void check() const {
        static_assert(tile >= 0 && tile < 8);
        fault(!is_configured_ || shapes_.rows[tile] == 0 || shapes_.row_bytes[tile] == 0);
    }

    bool is_configured_ = false;
};

}  // namespace test
