// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "row_cases.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

template <class T>
float value_of(TestRows<T> const& rows, std::int64_t row, std::int64_t i) {
    return static_cast<float>(rows.values[rows.place(row, i)]);
}

/// What additions make of every element, to the bit.
template <class T, class B>
void check_additions(Bench<B>& bench, RowShape shape, bool in_place) {
    CAPTURE(shape.width);
    CAPTURE(shape.stride);
    TestRows<T> const a(shape.rows, shape.width, shape.stride, shape.shift, 201);
    TestRows<T> const b(shape.rows, shape.width, shape.stride, shape.shift, 202, 3.0F);
    TestRows<T> const bias(1, shape.width, shape.width, shape.shift, 203);
    auto left = bench.send(a.values);
    auto right = bench.send(b.values);
    auto apart = bench.send(a.values);
    auto row = bench.send(bias.values);
    auto shifted = bench.send(a.values);
    auto scaled = bench.send(a.values);
    auto filled = bench.send(a.values);
    constexpr float factor = 0.7F;
    auto& sum = in_place ? right : apart;
    using Rows = TensorView<T const, 2, B>;
    REQUIRE(add<T>(Rows(a.view(left)), Rows(b.view(right)), a.view(sum), bench.stream()));
    REQUIRE(add_row<T>(TensorView<T const, 1, B>(row.data() + shape.shift, {shape.width}), a.view(shifted),
                       bench.stream()));
    auto& product = in_place ? left : scaled;
    REQUIRE(scale<T>(Rows(a.view(left)), a.view(product), factor, bench.stream()));
    REQUIRE(fill<T>(a.view(filled), factor, bench.stream()));
    auto const sums = a.fetched(bench, sum);
    auto const with_bias = a.fetched(bench, shifted);
    auto const products = a.fetched(bench, product);
    auto const constants = a.fetched(bench, filled);
    for (std::int64_t i = 0; i < shape.rows; ++i) {
        for (std::int64_t j = 0; j < shape.width; ++j) {
            auto const x = value_of(a, i, j);
            REQUIRE(value_of(sums, i, j) == static_cast<float>(T(x + value_of(b, i, j))));
            REQUIRE(value_of(with_bias, i, j) == static_cast<float>(T(x + value_of(bias, 0, j))));
            REQUIRE(value_of(products, i, j) == static_cast<float>(T(x * factor)));
            REQUIRE(value_of(constants, i, j) == static_cast<float>(T(factor)));
        }
    }
}

template <class T, class B>
void check_copies(Bench<B>& bench, RowShape shape) {
    CAPTURE(shape.width);
    CAPTURE(shape.stride);
    constexpr std::int64_t in_rows = 7;
    TestRows<T> const in(in_rows, shape.width, shape.stride, shape.shift, 211);
    TestRows<T> const made(shape.rows, shape.width, shape.stride, shape.shift, 212);
    TestRows<T> const copied(in_rows, shape.width, shape.width + 8, 0, 213);
    auto const numbers = some_ids(shape.rows, 0, in_rows);
    auto from = bench.send(in.values);
    auto taken = bench.send(made.values);
    auto to = bench.send(copied.values);
    auto const asked = bench.send(numbers);
    TensorView<T const, 2, B> const rows = in.view(from);
    REQUIRE(take_rows<T>(TensorView<std::int32_t const, 1, B>(asked.view()), rows, made.view(taken), bench.stream()));
    REQUIRE(copy_rows<T>(rows, copied.view(to), bench.stream()));
    auto const some = made.fetched(bench, taken);
    auto const all = copied.fetched(bench, to);
    for (std::int64_t j = 0; j < shape.width; ++j) {
        for (std::int64_t i = 0; i < shape.rows; ++i) {
            auto const row = numbers[static_cast<std::size_t>(i)];
            REQUIRE(some.at(i, j) == (row >= 0 && row < in_rows ? in.at(row, j) : 0.0));
        }
        for (std::int64_t i = 0; i < in_rows; ++i) REQUIRE(all.at(i, j) == in.at(i, j));
    }
}

template <class B>
void check_soft_cap(Bench<B>& bench, RowShape shape, bool in_place) {
    CAPTURE(shape.width);
    constexpr float cap = 30.0F;
    TestRows<float> const in(shape.rows, shape.width, shape.stride, shape.shift, 221, 90.0F);
    auto from = bench.send(in.values);
    auto other = bench.send(in.values);
    auto& target = in_place ? from : other;
    REQUIRE(soft_cap(TensorView<float const, 2, B>(in.view(from)), in.view(target), cap, bench.stream()));
    auto const out = in.fetched(bench, target);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        for (std::int64_t i = 0; i < shape.width; ++i) {
            auto const x = in.at(row, i) / static_cast<double>(cap);
            auto const expected = static_cast<double>(cap) * std::tanh(x);
            // The quotient, whose rounding tanh makes no larger, and the product.
            auto const units = activation_units(x, ActivationKind::tanh) + 2;
            REQUIRE(std::abs(out.at(row, i) - expected) <= std::abs(expected) * units * 0x1p-24 * 1.01);
        }
    }
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("add, add_row, scale and fill round each element once, in place or not", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        check_additions<float>(*bench, shape, shape.rows % 2 == 0);
        check_additions<Bfloat16>(*bench, shape, shape.rows % 2 == 1);
    }
    check_additions<Float16>(*bench, {3, 128, 128, 0}, true);
    auto buffer = bench->send(numbers(12, 1));
    TensorView<float const, 2, B> const in = buffer.matrix(3, 4);
    TensorView<float const, 2, B> const narrow = buffer.matrix(3, 3);
    TensorView<float const, 2, B> const fewer = buffer.matrix(2, 4);
    TensorView<float const, 1, B> const row(buffer.data(), {3});
    for (auto const& result : {add<float>(in, narrow, buffer.matrix(3, 4), bench->stream()),
                               add<float>(in, fewer, buffer.matrix(3, 4), bench->stream()),
                               add<float>(in, in, buffer.matrix(2, 4), bench->stream()),
                               add_row<float>(row, buffer.matrix(3, 4), bench->stream()),
                               scale<float>(in, buffer.matrix(3, 3), 2.0F, bench->stream())}) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code() == ErrorCode::shape_mismatch);
    }
}

TEST_CASE_TEMPLATE("add and scale keep the sign of zero, infinities, subnormals and NaN as IEEE has them", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    std::vector<float> const left{-0.0F, -0.0F, infinity, infinity, 0x1p-140F, std::nanf(""), 0x1p127F, -1.0F};
    std::vector<float> const right{-0.0F, 0.0F, -infinity, 1.0F, 0x1p-140F, 1.0F, 0x1p127F, 1.0F};
    auto a = bench->send(left);
    auto b = bench->send(right);
    auto sum = bench->send(left);
    auto product = bench->send(left);
    using Rows = TensorView<float const, 2, B>;
    REQUIRE(add<float>(Rows(a.matrix(1, 8)), Rows(b.matrix(1, 8)), sum.matrix(1, 8), bench->stream()));
    REQUIRE(scale<float>(Rows(a.matrix(1, 8)), product.matrix(1, 8), -0.5F, bench->stream()));
    auto const sums = bench->fetch(sum);
    auto const products = bench->fetch(product);
    for (std::size_t i = 0; i < left.size(); ++i) {
        CAPTURE(i);
        auto const expected = left[i] + right[i];
        auto const scaled = left[i] * -0.5F;
        CHECK(is_same(static_cast<double>(sums[i]), static_cast<double>(expected)));
        CHECK(is_same(static_cast<double>(products[i]), static_cast<double>(scaled)));
        if (!std::isnan(expected)) CHECK(std::signbit(sums[i]) == std::signbit(expected));
        if (!std::isnan(scaled)) CHECK(std::signbit(products[i]) == std::signbit(scaled));
    }
}

TEST_CASE_TEMPLATE("copy_rows and take_rows move rows unchanged, and give zeros for a row that is not there", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        check_copies<float>(*bench, shape);
        check_copies<Bfloat16>(*bench, shape);
    }
    check_copies<Float16>(*bench, {3, 128, 128, 0});
    auto const ids = bench->send(std::vector<std::int32_t>{1, 2});
    auto buffer = bench->send(numbers(12, 1));
    TensorView<float const, 2, B> const in = buffer.matrix(3, 4);
    TensorView<std::int32_t const, 1, B> const asked = ids.view();
    for (auto const& result : {take_rows<float>(asked, in, buffer.matrix(3, 4), bench->stream()),
                               take_rows<float>(asked, in, buffer.matrix(2, 3), bench->stream()),
                               copy_rows<float>(in, buffer.matrix(3, 3), bench->stream())}) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code() == ErrorCode::shape_mismatch);
    }
}

TEST_CASE_TEMPLATE("soft_cap is within its roundings, bends what is infinite to the cap and refuses a cap of zero", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) check_soft_cap(*bench, shape, shape.rows % 2 == 0);
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    auto buffer = bench->send(std::vector<float>{infinity, -infinity, 0.0F, std::nanf("")});
    TensorView<float const, 2, B> const in = buffer.matrix(1, 4);
    REQUIRE(soft_cap(in, buffer.matrix(1, 4), 30.0F, bench->stream()));
    auto const out = bench->fetch(buffer);
    CHECK(out[0] == 30.0F);
    CHECK(out[1] == -30.0F);
    CHECK(out[2] == 0.0F);
    CHECK(std::isnan(out[3]));
    for (float const cap : {0.0F, -1.0F, infinity, std::nanf("")}) {
        auto const refused = soft_cap(in, buffer.matrix(1, 4), cap, bench->stream());
        REQUIRE_FALSE(refused);
        CHECK(refused.error().place() == "cap");
    }
}

TEST_SUITE_END();
