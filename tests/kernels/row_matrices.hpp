// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

/// Matrices for the kernels over rows, and what they are held to.
namespace shardwise::testing {

/// Half of the distance between neighbours of T at 1: the rounding of one stored result.
template <class T>
constexpr double unit_roundoff = std::same_as<T, float>      ? 0x1p-24
                                 : std::same_as<T, Bfloat16> ? 0x1p-8
                                                             : 0x1p-11;

template <class T>
struct Matrix {
    std::int64_t rows;
    std::int64_t width;
    std::vector<T> values = std::vector<T>(static_cast<std::size_t>(rows * width));

    TensorView<T, 2, Host> view() { return {values.data(), {rows, width}}; }
    TensorView<T const, 2, Host> read() const { return {values.data(), {rows, width}}; }
    TensorView<T const, 1, Host> flat() const { return {values.data(), {rows * width}}; }
    double at(std::int64_t row, std::int64_t i) const {
        return static_cast<double>(static_cast<float>(values[static_cast<std::size_t>(row * width + i)]));
    }
};

/// Around 0.3.
template <class T>
[[nodiscard]] Matrix<T> random_matrix(std::int64_t rows, std::int64_t width, unsigned seed, float spread = 2.0F) {
    Matrix<T> matrix{rows, width};
    std::mt19937 random(seed);
    std::normal_distribution<float> values(0.3F, spread);
    for (auto& value : matrix.values) value = T(values(random));
    return matrix;
}

/// Every element within `roundoffs` roundings of float, relative to the reference's size and at least to `floor`, the size of what
/// is summed; and rounded to T, relative to what it is.
template <class T>
void check_close(Matrix<T> const& out, std::function<double(std::int64_t, std::int64_t)> const& reference,
                 double roundoffs, double floor = 1e-3) {
    int wrong = 0;
    for (std::int64_t row = 0; row < out.rows; ++row) {
        for (std::int64_t i = 0; i < out.width; ++i) {
            auto const expected = reference(row, i);
            // Below 2^-14 the neighbours of a Float16 come no closer.
            auto const stored = std::max(std::abs(expected), std::same_as<T, Float16> ? 0x1p-14 : 0.0);
            auto const allowed =
                roundoffs * 0x1p-24 * std::max(std::abs(expected), floor) + 1.01 * unit_roundoff<T> * stored;
            if (!(std::abs(out.at(row, i) - expected) <= allowed)) ++wrong;
        }
    }
    CHECK(wrong == 0);
}

struct Shape2 {
    std::int64_t rows;
    std::int64_t width;
};
inline constexpr Shape2 shapes[] = {{1, 1}, {3, 7}, {5, 64}, {2, 200}, {70, 33}};

/// The instruction sets that have kernels of their own and that this machine offers.
[[nodiscard]] inline std::vector<IsaLevel> levels() {
    std::vector<IsaLevel> found;
    for (auto const level : {IsaLevel::portable, IsaLevel::neon, IsaLevel::avx2, IsaLevel::avx512}) {
        if (has_isa(level)) found.push_back(level);
    }
    return found;
}

}  // namespace shardwise::testing
