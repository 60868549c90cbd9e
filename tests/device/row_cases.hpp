// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends.hpp"
#include "kernel_cases.hpp"
#include "test_rows.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace {

/// The longest chain of additions of a row's sum on a device: kernels/detail/norm_rows.cuh.
double chain(std::int64_t width) {
    auto const team = width <= 1024 ? 16 : 256;
    return static_cast<double>(width / team) + 8 + 5 + 16;
}

/// Whether two numbers are the same, or both none.
bool is_same(double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b));
}

template <class T, class Weight = T, class B>
void check_layer_norm(Bench<B>& bench, RowShape shape, bool in_place, bool has_bias, float size = 1.0F,
                      float centre = 0.0F, float epsilon = 1e-5F) {
    CAPTURE(shape.width);
    CAPTURE(size);
    CAPTURE(centre);
    TestRows<T> const in(shape.rows, shape.width, shape.stride, shape.shift, 71, size, centre);
    TestRows<Weight> const weight(1, shape.width, shape.width, 0, 72);
    TestRows<Weight> const bias(1, shape.width, shape.width, 0, 73);
    auto from = bench.send(in.values);
    auto other = bench.send(in.values);
    auto const factors = bench.send(weight.values);
    auto const shifts = bench.send(bias.values);
    auto& target = in_place ? from : other;
    TensorView<Weight const, 1, B> const none;
    REQUIRE(layer_norm<T>(TensorView<T const, 2, B>(in.view(from)), TensorView<Weight const, 1, B>(factors.view()),
                          has_bias ? TensorView<Weight const, 1, B>(shifts.view()) : none, in.view(target), epsilon,
                          bench.stream()));
    auto const out = in.fetched(bench, target);
    auto const c = chain(shape.width);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        auto const n = static_cast<double>(shape.width);
        double mean = 0.0;
        for (std::int64_t i = 0; i < shape.width; ++i) mean += in.at(row, i) / n;
        double squares = 0.0;
        double deviations = 0.0;
        for (std::int64_t i = 0; i < shape.width; ++i) {
            squares += std::pow(in.at(row, i) - mean, 2) / n;
            deviations += std::abs(in.at(row, i) - mean) / n;
        }
        auto const scale = 1.0 / std::sqrt(squares + static_cast<double>(epsilon));
        for (std::int64_t i = 0; i < shape.width; ++i) {
            auto const factor = weight.at(0, i);
            auto const added = has_bias ? bias.at(0, i) : 0.0;
            auto const normal = (in.at(row, i) - mean) * scale * factor;
            auto const expected = normal + added;
            // The deviation's mean has a sum's roundings, and so has the variance, whose root halves them; then a subtraction, the
            // root, the reciprocal, two products and an addition.
            auto const bound = std::abs(scale * factor) * deviations * (c + 4) * 0x1p-24 +
                               std::abs(normal) * (c / 2 + 8) * 0x1p-24 + std::abs(added) * 0x1p-23 +
                               std::abs(expected) * roundoff<T> + smallest<T>;
            REQUIRE(std::abs(out.at(row, i) - expected) <= bound * 1.01);
        }
    }
}

template <class T, class B>
void check_residual_norm(Bench<B>& bench, RowShape shape, std::size_t count) {
    CAPTURE(shape.width);
    CAPTURE(count);
    TestRows<T> const residual(shape.rows, shape.width, shape.stride, shape.shift, 81);
    TestRows<T> const weight(1, shape.width, shape.width, 0, 82);
    auto sum = residual;
    std::vector<std::vector<T>> parts;
    std::vector<Buffer<T, B>> sent;
    std::vector<T const*> pointers;
    for (std::size_t part = 0; part < count; ++part) {
        // A part is dense, and off a pack's address where the rows are.
        auto const size = shape.rows * shape.width;
        parts.push_back(numbers<T>(size + shape.shift, static_cast<unsigned>(90 + part)));
        sent.push_back(bench.send(parts.back()));
        pointers.push_back(sent.back().data() + shape.shift);
    }
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        for (std::int64_t i = 0; i < shape.width; ++i) {
            auto const at = static_cast<std::size_t>(shape.shift + row * shape.width + i);
            auto value = static_cast<float>(parts[0][at]);
            for (std::size_t part = 1; part < count; ++part) value += static_cast<float>(parts[part][at]);
            sum.set(row, i, static_cast<float>(residual.values[residual.place(row, i)]) + value);
        }
    }
    auto held = bench.send(residual.values);
    auto target = bench.send(residual.values);
    auto const factors = bench.send(weight.values);
    constexpr float offset = 1.0F;
    REQUIRE(residual_norm<T>(std::span<T const* const>(pointers), residual.view(held),
                             TensorView<T const, 1, B>(factors.view()), residual.view(target), 1e-5F, bench.stream(),
                             offset));
    auto const stored = residual.fetched(bench, held);
    auto const out = residual.fetched(bench, target);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        double squares = 0.0;
        for (std::int64_t i = 0; i < shape.width; ++i) {
            // Added in the order of the parts, in float, and rounded once: the same bits everywhere.
            REQUIRE(stored.at(row, i) == sum.at(row, i));
            squares += std::pow(sum.at(row, i), 2) / static_cast<double>(shape.width);
        }
        auto const scale = 1.0 / std::sqrt(squares + 1e-5);
        for (std::int64_t i = 0; i < shape.width; ++i) {
            auto const expected = sum.at(row, i) * scale * (weight.at(0, i) + 1.0);
            auto const bound =
                std::abs(expected) * ((chain(shape.width) + 2) / 2 + 7) * 0x1p-24 + std::abs(expected) * roundoff<T>;
            REQUIRE(std::abs(out.at(row, i) - expected) <= bound * 1.01 + smallest<T>);
        }
    }
}

template <class T, class B>
void check_softmax(Bench<B>& bench, RowShape shape, bool in_place) {
    CAPTURE(shape.width);
    TestRows<T> const in(shape.rows, shape.width, shape.stride, shape.shift, 101, 20.0F);
    auto from = bench.send(in.values);
    auto other = bench.send(in.values);
    auto& target = in_place ? from : other;
    REQUIRE(softmax<T>(TensorView<T const, 2, B>(in.view(from)), in.view(target), bench.stream()));
    auto const out = in.fetched(bench, target);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        auto largest = in.at(row, 0);
        for (std::int64_t i = 1; i < shape.width; ++i) largest = std::max(largest, in.at(row, i));
        double sum = 0.0;
        for (std::int64_t i = 0; i < shape.width; ++i) sum += std::exp(in.at(row, i) - largest);
        for (std::int64_t i = 0; i < shape.width; ++i) {
            auto const expected = std::exp(in.at(row, i) - largest) / sum;
            // The difference is rounded: by up to 2^-24 of 40, which is what exp is off by, beside its own two units, above and in
            // the sum; then the sum, a reciprocal and a product.
            auto const bound = expected * (2 * (40 + 4) + chain(shape.width) + 3) * 0x1p-24 + expected * roundoff<T>;
            REQUIRE(std::abs(out.at(row, i) - expected) <= bound * 1.01 + smallest<T>);
        }
    }
}

/// The activations in double.
double activated(double x, ActivationKind kind) {
    auto const sigmoid = [](double value) { return 1.0 / (1.0 + std::exp(-value)); };
    switch (kind) {
        case ActivationKind::silu:
            return x * sigmoid(x);
        case ActivationKind::gelu:
            return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
        case ActivationKind::gelu_tanh:
        case ActivationKind::gelu_new:
        case ActivationKind::gelu_fast:
            return x * sigmoid(2.0 * std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x));
        case ActivationKind::relu:
            return std::max(x, 0.0);
        case ActivationKind::relu_squared:
            return x < 0.0 ? 0.0 : x * x;
        case ActivationKind::tanh:
            return std::tanh(x);
        case ActivationKind::quick_gelu:
        case ActivationKind::swiglu_clamped:
            return x * sigmoid(1.702 * x);
        case ActivationKind::sigmoid:
            return sigmoid(x);
        case ActivationKind::xielu:
            break;
    }
    return std::nan("");
}

/// How far a float's activation of x may be off, in units of 2^-24 of it: an exponential's argument is rounded a few times, each by
/// 2^-24 of it, which the exponential is off by; and its own two units, a sum, a quotient.
double activation_units(double x, ActivationKind kind) {
    if (kind == ActivationKind::relu || kind == ActivationKind::relu_squared) return 1;
    // x^2 / 2 of gelu's density, and its polynomial's 1.8e-8; 1.6 (x + 0.045 x^3) of its tanh form; 2 x at most elsewhere.
    if (kind == ActivationKind::gelu) return 12 + 2 * x * x;
    return 12 + 4 * (1.6 * std::abs(x) + 0.0715 * std::abs(x * x * x));
}

constexpr std::array<ActivationKind, 11> activation_kinds{
    ActivationKind::silu,      ActivationKind::gelu,       ActivationKind::gelu_tanh,      ActivationKind::relu,
    ActivationKind::tanh,      ActivationKind::quick_gelu, ActivationKind::swiglu_clamped, ActivationKind::gelu_new,
    ActivationKind::gelu_fast, ActivationKind::sigmoid,    ActivationKind::relu_squared};

template <class T, class B>
void check_activation(Bench<B>& bench, RowShape shape, ActivationKind kind, bool in_place) {
    CAPTURE(static_cast<int>(kind));
    CAPTURE(shape.width);
    TestRows<T> const in(shape.rows, shape.width, shape.stride, shape.shift, 111, 9.0F);
    TestRows<T> const up(shape.rows, shape.width, shape.stride, shape.shift, 112, 9.0F);
    auto from = bench.send(in.values);
    auto factors = bench.send(up.values);
    auto other = bench.send(in.values);
    auto gated = bench.send(in.values);
    TensorView<T const, 2, B> const view = in.view(from);
    // First the gated one: `factors` and `from` may be overwritten.
    auto& product = in_place ? factors : gated;
    auto& target = in_place ? from : other;
    REQUIRE(
        gated_activation<T>(view, TensorView<T const, 2, B>(up.view(factors)), in.view(product), kind, bench.stream()));
    REQUIRE(activation<T>(view, in.view(target), kind, bench.stream()));
    auto const products = in.fetched(bench, product);
    auto const out = in.fetched(bench, target);
    bool const is_clamped = kind == ActivationKind::swiglu_clamped;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        for (std::int64_t i = 0; i < shape.width; ++i) {
            auto const x = in.at(row, i);
            auto const expected = activated(x, kind);
            auto const units = activation_units(x, kind);
            REQUIRE(std::abs(out.at(row, i) - expected) <=
                    std::abs(expected) * (units * 0x1p-24 + roundoff<T>)*1.01 + smallest<T>);
            auto const u = is_clamped ? std::min(std::max(up.at(row, i), -7.0), 7.0) + 1.0 : up.at(row, i);
            auto const gate = is_clamped ? activated(std::min(x, 7.0), kind) : expected;
            REQUIRE(std::abs(products.at(row, i) - gate * u) <=
                    std::abs(gate * u) * ((units + 1) * 0x1p-24 + roundoff<T>)*1.01 + std::abs(gate) * 0x1p-24 +
                        smallest<T>);
        }
    }
}

template <class B>
void check_scale_rows(Bench<B>& bench, RowShape shape, ActivationKind kind) {
    TestRows<float> const in(shape.rows, shape.width, shape.stride, shape.shift, 121);
    TestRows<float> const gate(shape.rows, 1, 3, 0, 122, 5.0F);
    auto from = bench.send(in.values);
    auto gates = bench.send(gate.values);
    REQUIRE(scale_rows(TensorView<float const, 2, B>(gate.view(gates)), TensorView<float const, 2, B>(in.view(from)),
                       in.view(from), kind, bench.stream()));
    auto const out = in.fetched(bench, from);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        auto const factor = activated(gate.at(row, 0), kind);
        for (std::int64_t i = 0; i < shape.width; ++i) {
            auto const expected = factor * in.at(row, i);
            REQUIRE(std::abs(out.at(row, i) - expected) <=
                    std::abs(expected) * (activation_units(gate.at(row, 0), kind) + 1) * 0x1p-24 * 1.01);
        }
    }
}

/// Ids within a shard of the vocabulary and outside of it.
std::vector<std::int32_t> some_ids(std::int64_t count, std::int64_t first_row, std::int64_t rows) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < count; ++i) {
        auto const row = i % 5 == 3 ? rows + i : i % 5 == 4 ? -1 - i : (i * 7) % rows;
        ids.push_back(static_cast<std::int32_t>(first_row + row));
    }
    return ids;
}

template <class T, class B>
void check_embedding_rows(Bench<B>& bench, RowShape shape) {
    CAPTURE(shape.width);
    constexpr std::int64_t first_row = 1000;
    constexpr std::int64_t table_rows = 11;
    TestRows<T> const table(table_rows, shape.width, shape.stride, shape.shift, 131);
    TestRows<T> const made(shape.rows, shape.width, shape.stride, shape.shift, 132);
    auto const ids = some_ids(shape.rows, first_row, table_rows);
    auto from = bench.send(table.values);
    auto to = bench.send(made.values);
    auto const tokens = bench.send(ids);
    REQUIRE(embedding<T>(TensorView<std::int32_t const, 1, B>(tokens.view()),
                         TensorView<T const, 2, B>(table.view(from)), made.view(to), bench.stream(), first_row));
    auto const out = made.fetched(bench, to);
    for (std::int64_t token = 0; token < shape.rows; ++token) {
        auto const row = ids[static_cast<std::size_t>(token)] - first_row;
        for (std::int64_t i = 0; i < shape.width; ++i) {
            REQUIRE(out.at(token, i) == (row >= 0 && row < table_rows ? table.at(row, i) : 0.0));
        }
    }
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("layer_norm is within the rounding of its arithmetic, also of rows far from zero or of tiny numbers",
                   B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        check_layer_norm<float>(*bench, shape, shape.rows % 2 == 0, shape.rows != 2);
        check_layer_norm<Bfloat16>(*bench, shape, shape.rows % 2 == 1, shape.rows != 3);
    }
    check_layer_norm<Float16>(*bench, {3, 128, 128, 0}, false, true);
    // A mean that is a thousand times the deviations, in which a sum in float has no digit of them left.
    check_layer_norm<float>(*bench, {2, 1040, 1040, 0}, false, true, 1.0F, 1000.0F);
    check_layer_norm<float>(*bench, {2, 64, 64, 0}, false, true, 1.0F, -3000.0F);
    for (float const size : {1e-42F, 1e-37F, 1e-20F, 1e19F, 1e30F, 1e37F}) {
        check_layer_norm<float>(*bench, {2, 300, 300, 0}, false, false, size, 0.0F, size < 1.0F ? 0.0F : 1e-5F);
    }
}

TEST_CASE_TEMPLATE("residual_norm stores the sum of its parts bit for bit, and normalises what it stores", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        check_residual_norm<float>(*bench, shape, 1);
        check_residual_norm<Bfloat16>(*bench, shape, 3);
    }
    check_residual_norm<Float16>(*bench, {3, 128, 128, 0}, 2);
    check_residual_norm<float>(*bench, {2, 16, 16, 0}, 64);
    auto buffer = bench->send(numbers(64, 1));
    TensorView<float const, 1, B> const weight(buffer.data(), {4});
    std::vector<float const*> const many(65, buffer.data());
    auto const refused = residual_norm<float>(std::span<float const* const>(many), buffer.matrix(2, 4), weight,
                                              buffer.matrix(2, 4), 0.0F, bench->stream());
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::capacity_exceeded);
    TensorView<float const, 2, B> const apart(buffer.data(), {2, 4}, 5);
    auto const gaps =
        residual_norm<float>(apart, buffer.matrix(2, 4), weight, buffer.matrix(2, 4), 0.0F, bench->stream());
    REQUIRE_FALSE(gaps);
    CHECK(gaps.error().code() == ErrorCode::shape_mismatch);
}

TEST_CASE_TEMPLATE("softmax is within its roundings; masked rows are zeros, and what is no number is its whole row's",
                   B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        check_softmax<float>(*bench, shape, shape.rows % 2 == 0);
        check_softmax<Bfloat16>(*bench, shape, shape.rows % 2 == 1);
    }
    check_softmax<Float16>(*bench, {3, 128, 128, 0}, true);
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    for (std::int64_t const width : {5, 64, 1040}) {
        TestRows<float> in(4, width, width, 0, 5);
        for (std::int64_t i = 0; i < width; ++i) in.set(0, i, -infinity);
        for (std::int64_t i = 0; i < width; ++i) in.set(1, i, i == 3 ? 2.0F : -infinity);
        in.set(2, 4, std::nanf(""));
        in.set(3, 1, infinity);
        auto from = bench->send(in.values);
        REQUIRE(softmax<float>(TensorView<float const, 2, B>(in.view(from)), in.view(from), bench->stream()));
        auto const out = in.fetched(*bench, from);
        for (std::int64_t i = 0; i < width; ++i) {
            REQUIRE(out.at(0, i) == 0.0);
            REQUIRE(out.at(1, i) == (i == 3 ? 1.0 : 0.0));
            REQUIRE(std::isnan(out.at(2, i)));
            REQUIRE(std::isnan(out.at(3, i)));
        }
    }
}

TEST_CASE_TEMPLATE("activation and gated_activation are within the rounding of every kind, in place or not", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const kind : activation_kinds) {
        check_activation<float>(*bench, {3, 64, 64, 0}, kind, false);
        check_activation<float>(*bench, {2, 67, 70, 1}, kind, true);
        check_activation<Bfloat16>(*bench, {2, 64, 72, 0}, kind, true);
        check_activation<Float16>(*bench, {2, 33, 33, 0}, kind, false);
    }
    for (auto const& shape : row_shapes) check_activation<Bfloat16>(*bench, shape, ActivationKind::silu, false);
    auto buffer = bench->send(numbers(12, 1));
    TensorView<float const, 2, B> const in = buffer.matrix(3, 4);
    auto const refused = activation<float>(in, buffer.matrix(3, 4), ActivationKind::xielu, bench->stream());
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::unsupported);
    TensorView<float const, 2, B> const narrow = buffer.matrix(3, 3);
    auto const shapes = gated_activation<float>(in, narrow, buffer.matrix(3, 4), ActivationKind::silu, bench->stream());
    REQUIRE_FALSE(shapes);
    CHECK(shapes.error().place() == "up");
}

TEST_CASE_TEMPLATE("activations of zeros, subnormals, infinities and NaN are their definition's limits", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    std::vector<float> const values{0.0F, -0.0F, 0x1p-140F, -0x1p-140F, infinity, std::nanf(""), 200.0F, -200.0F};
    for (auto const kind : activation_kinds) {
        CAPTURE(static_cast<int>(kind));
        auto const from = bench->send(values);
        auto to = bench->send(values);
        TensorView<float const, 2, B> const in(from.data(), {1, 8});
        REQUIRE(activation<float>(in, to.matrix(1, 8), kind, bench->stream()));
        auto const out = bench->fetch(to);
        for (std::size_t i = 0; i < values.size(); ++i) {
            CAPTURE(values[i]);
            // Beyond 14.5 standard deviations the share of gelu, and below -90 the exponential of others, is no float: 0.
            auto const expected =
                static_cast<double>(static_cast<float>(activated(static_cast<double>(values[i]), kind)));
            auto const made = static_cast<double>(out[i]);
            REQUIRE((is_same(made, expected) || std::abs(made - expected) <= std::abs(expected) * 0x1p-22 + 0x1p-148));
        }
        CHECK(std::isnan(out[5]));
    }
}

TEST_CASE_TEMPLATE("scale_rows multiplies each row by the activation of its gate", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) check_scale_rows(*bench, shape, ActivationKind::sigmoid);
    check_scale_rows(*bench, {3, 64, 64, 0}, ActivationKind::silu);
    auto buffer = bench->send(numbers(12, 1));
    TensorView<float const, 2, B> const in = buffer.matrix(3, 4);
    auto const refused = scale_rows(in, in, buffer.matrix(3, 4), ActivationKind::sigmoid, bench->stream());
    REQUIRE_FALSE(refused);
    CHECK(refused.error().place() == "gate");
}

TEST_CASE_TEMPLATE("embedding copies rows of a shard's table, and gives zeros for ids of other shards", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        check_embedding_rows<float>(*bench, shape);
        check_embedding_rows<Bfloat16>(*bench, shape);
    }
    check_embedding_rows<Float16>(*bench, {3, 128, 128, 0});
    auto const ids = bench->send(std::vector<std::int32_t>{1, 2});
    auto buffer = bench->send(numbers(12, 1));
    TensorView<float const, 2, B> const table = buffer.matrix(3, 4);
    TensorView<std::int32_t const, 1, B> const tokens = ids.view();
    for (auto const& result : {embedding<float>(tokens, table, buffer.matrix(3, 4), bench->stream()),
                               embedding<float>(tokens, table, buffer.matrix(2, 3), bench->stream())}) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code() == ErrorCode::shape_mismatch);
    }
}

TEST_SUITE_END();
