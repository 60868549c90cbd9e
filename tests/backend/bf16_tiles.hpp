// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/half_types.hpp>

#include "bf16_problem.hpp"
#include "memory_tiles.hpp"

#include <cstdint>
#include <cstring>

namespace test {

/// With products of bf16, tdpbf16ps.
class Bf16Tiles : public test::MemoryTiles {
public:
    template <int sums>
    void add_products() {
        constexpr int values = 4 + sums / 2;
        constexpr int weights = 6 + sums % 2;
        begin_product<sums, values, weights>();
        bool has_weights[16] = {};
        for (int pair = 0; pair < shapes_.rows[weights]; ++pair) {
            for (int i = 0; i < shapes_.row_bytes[weights]; ++i)
                has_weights[i / 4] = has_weights[i / 4] || tiles_[weights][pair][i] != 0;
        }
        for (int row = 0; row < shapes_.rows[sums]; ++row) {
            for (int column = 0; column < shapes_.row_bytes[sums] / 4; ++column) {
                float both[2] = {};
                // Finite values by zeros add nothing.
                for (int pair = 0; pair < shapes_.rows[weights] && has_weights[column]; ++pair) {
                    for (int i = 0; i < 2; ++i) {
                        both[i] =
                            multiply_add(half(values, row, 2 * pair + i), half(weights, pair, 2 * column + i), both[i]);
                    }
                }
                float sum;
                std::memcpy(&sum, tiles_[sums][row] + 4 * column, 4);
                sum = add(sum, add(both[0], both[1]));
                std::memcpy(tiles_[sums][row] + 4 * column, &sum, 4);
            }
        }
    }

private:
    [[nodiscard]] float half(int tile, int row, int place) const {
        std::uint16_t bits;
        std::memcpy(&bits, tiles_[tile][row] + 2 * place, 2);
        return from_bf16(bits);
    }
};

}  // namespace test
