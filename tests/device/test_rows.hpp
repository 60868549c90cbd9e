// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// TestRows that lie `stride` apart and begin `shift` elements after the memory; what lies between them is 77.
template <class T>
struct TestRows {
    std::int64_t rows;
    std::int64_t width;
    std::int64_t stride;
    std::int64_t shift;
    std::vector<T> values;

    TestRows(std::int64_t count, std::int64_t columns, std::int64_t distance, std::int64_t offset, unsigned seed,
             float size = 1.0F, float centre = 0.0F)
        : rows(count),
          width(columns),
          stride(distance),
          shift(offset),
          values(numbers<T>(count * distance + offset, seed)) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            auto const at = static_cast<std::int64_t>(i) - shift;
            bool const is_own = at >= 0 && at % stride < width;
            values[i] = is_own ? T(static_cast<float>(values[i]) * size + centre) : T(77.0F);
        }
    }
    [[nodiscard]] std::size_t place(std::int64_t row, std::int64_t i) const {
        return static_cast<std::size_t>(shift + row * stride + i);
    }
    [[nodiscard]] double at(std::int64_t row, std::int64_t i) const {
        return static_cast<double>(static_cast<float>(values[place(row, i)]));
    }
    void set(std::int64_t row, std::int64_t i, float value) { values[place(row, i)] = T(value); }
    template <class B>
    [[nodiscard]] TensorView<T, 2, B> view(Buffer<T, B>& buffer) const {
        return {buffer.data() + shift, {rows, width}, stride};
    }
    /// Takes what a kernel has made of it; nothing between the rows may have changed.
    template <class B>
    [[nodiscard]] TestRows fetched(Bench<B>& bench, Buffer<T, B> const& buffer) const {
        auto made = *this;
        made.values = bench.fetch(buffer);
        for (std::size_t i = 0; i < values.size(); ++i) {
            auto const index = static_cast<std::int64_t>(i) - shift;
            if (index < 0 || index % stride >= width) REQUIRE(static_cast<float>(made.values[i]) == 77.0F);
        }
        return made;
    }
};

/// A shape that a kernel over rows has a path for.
struct RowShape {
    std::int64_t rows;
    std::int64_t width;
    std::int64_t stride;
    std::int64_t shift;
};

/// No row; one element; packs of a warp's and of a block's rows; more than a thread keeps; rows that lie on no pack, by width,
/// distance or address.
constexpr std::array<RowShape, 10> row_shapes{{{0, 16, 16, 0},
                                               {1, 1, 1, 0},
                                               {35, 64, 64, 0},
                                               {3, 1024, 1032, 0},
                                               {2, 1040, 1040, 0},
                                               {1, 16640, 16640, 0},
                                               {3, 67, 67, 0},
                                               {3, 64, 69, 0},
                                               {2, 64, 64, 1},
                                               {2, 1500, 1501, 3}}};

}  // namespace
