// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/residual_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/kernels/square_sums.hpp>

#include <doctest/doctest.h>

#include "row_matrices.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// Elements of one size, as far as floats have it, that differ from one another.
template <class T>
Matrix<T> matrix_of_size(std::int64_t rows, std::int64_t width, double size) {
    Matrix<T> matrix{rows, width};
    for (std::size_t i = 0; i < matrix.values.size(); ++i) {
        auto const sign = i % 3 == 1 ? -1.0 : 1.0;
        matrix.values[i] = T(static_cast<float>(sign * size * static_cast<double>(i % 7 + 1)));
    }
    return matrix;
}
double mean_square(auto const& in, std::int64_t row, double mean) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < in.width; ++i) sum += (in.at(row, i) - mean) * (in.at(row, i) - mean);
    return sum / static_cast<double>(in.width);
}
double mean_of(auto const& in, std::int64_t row) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < in.width; ++i) sum += in.at(row, i);
    return sum / static_cast<double>(in.width);
}

}  // namespace

TEST_CASE_TEMPLATE("norms without an epsilon: rows of any size that a float has become rows of size 1", T, float,
                   Bfloat16) {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 1, .isa = level});
        auto stream = context.make_stream();
        for (auto const [rows, width] : shapes) {
            if (width == 1) continue;
            for (double const size : {1e-44, 1e-42, 3e-40, 2e-39, 5e-39, 1e-37, 1e-20, 1.0, 1e19, 1e37}) {
                CAPTURE(size);
                auto const in = matrix_of_size<T>(rows, width, size);
                if (mean_square(in, 0, 0.0) == 0.0) continue;
                auto const weight = random_matrix<T>(1, width, 2);
                auto const bias = random_matrix<T>(1, width, 3);
                auto const of_rms = [&](std::int64_t row, std::int64_t i) {
                    return in.at(row, i) / std::sqrt(mean_square(in, row, 0.0)) * weight.at(0, i);
                };
                Matrix<T> out{rows, width};
                REQUIRE(rms_norm<T>(in.read(), weight.flat(), out.view(), 0.0F, stream));
                // A scale below the normal floats has fewer digits.
                check_close<T>(out, of_rms, size > 1e36 ? 64.0 : 4.0);
                auto residual = in;
                Matrix<T> const nothing{rows, width};
                REQUIRE(residual_norm<T>(nothing.read(), residual.view(), weight.flat(), out.view(), 0.0F, stream));
                check_close<T>(out, of_rms, size > 1e36 ? 64.0 : 4.0);
                if (mean_square(in, 0, mean_of(in, 0)) < 1e-88) continue;
                REQUIRE(layer_norm<T>(in.read(), weight.flat(), bias.flat(), out.view(), 0.0F, stream));
                // Deviations between 2.9e-39 and the normal floats have fewer digits too.
                check_close<T>(
                    out,
                    [&](std::int64_t row, std::int64_t i) {
                        auto const mean = mean_of(in, row);
                        return (in.at(row, i) - mean) / std::sqrt(mean_square(in, row, mean)) * weight.at(0, i) +
                               bias.at(0, i);
                    },
                    size > 1e36 || size < 1e-37 ? 64.0 : 8.0, 10.0);
            }
        }
    }
}

TEST_CASE(
    "square sums: the columns of several ranks give the norm of whole rows, and the first of a row's numbers are "
    "kept") {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        constexpr std::int64_t rows = 5;
        constexpr std::int64_t width = 70;
        auto const in = random_matrix<float>(rows, width, 1);
        auto const weight = random_matrix<float>(1, width, 2);
        Matrix<float> out{rows, width};
        std::vector<double> total(rows * 2, 0.0);
        std::vector<double> sums(rows * 2, 7.0);
        TensorView<double, 2, Host> const view(sums.data(), {rows, 2});
        UnitRange const cuts[] = {{0, 33}, {33, 70}};
        for (auto const& cut : cuts) {
            std::int64_t const number = cut.begin == 0 ? 0 : 1;
            SquareSum const parts[] = {{{0, cut.size()}, number}};
            REQUIRE(sum_squares<float>(in.read().columns(cut.begin, cut.size()), parts, view, stream));
            for (std::size_t i = 0; i < total.size(); ++i) total[i] += sums[i];
            for (std::int64_t row = 0; row < rows; ++row)
                CHECK(sums[static_cast<std::size_t>(2 * row + 1 - number)] == 0.0);
        }
        TensorView<double const, 2, Host> const whole(total.data(), {rows, 2});
        for (auto const& cut : cuts) {
            auto const columns = out.view().columns(cut.begin, cut.size());
            REQUIRE(scale_by_squares<float>(in.read().columns(cut.begin, cut.size()), whole, width,
                                            weight.flat().part(cut.begin, cut.size()), columns, 1e-5F, stream, 1.0F));
        }
        check_close<float>(
            out,
            [&](std::int64_t row, std::int64_t i) {
                return in.at(row, i) / std::sqrt(mean_square(in, row, 0.0) + static_cast<double>(1e-5F)) *
                       (weight.at(0, i) + 1.0);
            },
            4.0);
    }
}

TEST_CASE("square sums: what does not go together is refused") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const in = random_matrix<float>(2, 8, 1);
    auto const weight = random_matrix<float>(1, 8, 2);
    Matrix<float> out{2, 8};
    std::vector<double> sums(4);
    TensorView<double, 2, Host> const view(sums.data(), {2, 2});
    SquareSum const beyond[] = {{{4, 9}, 0}};
    SquareSum const third[] = {{{0, 8}, 2}};
    CHECK(!sum_squares<float>(in.read(), beyond, view, stream));
    CHECK(!sum_squares<float>(in.read(), third, view, stream));
    CHECK(!sum_squares<float>(in.read().rows(0, 1), {}, view, stream));
    CHECK(!scale_by_squares<float>(in.read(), view.rows(0, 1), 8, weight.flat(), out.view(), 0.0F, stream));
    CHECK(!scale_by_squares<float>(in.read(), view, 7, weight.flat(), out.view(), 0.0F, stream));
}
