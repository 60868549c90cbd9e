// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/isa.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace test {

using namespace shardwise;

/// The instruction set levels that the machine has.
inline std::vector<IsaLevel> levels() {
    std::vector<IsaLevel> found;
    for (auto const level : isa_level_list) {
        if (has_isa(level)) found.push_back(level);
    }
    return found;
}

/// A factor as a product reads it: [rows, columns], kept as it is or transposed, its rows two elements further apart than
/// they are long.
template <class T>
struct Factor {
    std::int64_t rows;
    std::int64_t columns;
    bool is_transposed;
    std::int64_t stride;
    std::vector<T> values;

    template <class Value>
    Factor(std::int64_t rows_, std::int64_t columns_, bool is_transposed_, Value&& value)
        : rows(rows_),
          columns(columns_),
          is_transposed(is_transposed_),
          stride((is_transposed ? rows : columns) + 2),
          values(static_cast<std::size_t>((is_transposed ? columns : rows) * stride), T(std::nanf(""))) {
        for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t column = 0; column < columns; ++column) {
                values[place(row, column)] = T(value(row, column));
            }
        }
    }
    std::size_t place(std::int64_t row, std::int64_t column) const {
        return static_cast<std::size_t>(is_transposed ? column * stride + row : row * stride + column);
    }
    double at(std::int64_t row, std::int64_t column) const {
        return static_cast<double>(static_cast<float>(values[place(row, column)]));
    }
    TensorView<T const, 2, Host> view() const {
        if (is_transposed) return {values.data(), {columns, rows}, stride};
        return {values.data(), {rows, columns}, stride};
    }
};

/// Small whole numbers.
inline float integer_at(std::int64_t row, std::int64_t column) {
    return static_cast<float>((row * 5 + column * 11 + row * column) % 7 - 3);
}

}  // namespace test
