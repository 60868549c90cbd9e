// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention_cases.hpp"
#include "expert_product_cases.hpp"
#include "half_row_cases.hpp"
#include "pair_sample.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

// What half_row_cases.hpp says, of products and of attention.

namespace {

/// Numbers that T holds, and the same as floats.
template <class T>
struct SameNumbers {
    std::vector<T> halves;
    std::vector<float> floats;

    SameNumbers(std::int64_t count, unsigned seed) : halves(numbers<T>(count, seed)) {
        for (auto const value : halves) floats.push_back(static_cast<float>(value));
    }
    void set(std::size_t at, float value) {
        halves[at] = T(value);
        floats[at] = static_cast<float>(halves[at]);
    }
};

template <class T>
void check_same(std::vector<float> const& made, std::vector<T> const& rounded, std::vector<float> const& expected) {
    REQUIRE(made.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        bool const is_same = made[i] == expected[i] || (std::isnan(made[i]) && std::isnan(expected[i]));
        REQUIRE(is_same);
        REQUIRE(is_rounded(rounded[i], expected[i]));
    }
}

template <class T>
void check_half_product(Bench<TestDevice>& bench, WeightFormat format, std::int64_t outputs, std::int64_t inputs,
                        std::int64_t rows, bool is_infinite = false) {
    using Device = TestDevice;
    CAPTURE(name_of(format));
    CAPTURE(inputs);
    CAPTURE(rows);
    auto const held = Device::hold_weight(bench.context(), StoredWeight(format, outputs, inputs).source());
    REQUIRE(held);
    // Rows on eight bytes, or on two.
    auto const shift = rows % 2;
    auto const in_row = shift == 0 ? round_up(inputs, 4) + 4 : inputs + 1;
    SameNumbers<T> in(shift + rows * in_row, 811);
    if (is_infinite) in.set(static_cast<std::size_t>(shift + 3), std::numeric_limits<float>::infinity());
    auto const halves = bench.send(in.halves);
    auto const floats = bench.send(in.floats);
    // fp32 of many rows is another product, but for a range.
    bool const is_range = rows == 2 || (format == WeightFormat::f32 && rows > 16);
    auto const product = [&]<class E, class Out>(Buffer<E, Device> const& from, Out) {
        auto to = bench.send(std::vector<Out>(static_cast<std::size_t>(rows * (outputs + 3)), Out(77.0F)));
        TensorView<E const, 2, Device> const given(from.data() + shift, {rows, inputs}, in_row);
        TensorView<Out, 2, Device> const out(to.data(), {rows, outputs}, outputs + 3);
        REQUIRE((is_range ? Device::multiply(given, *held, {0, inputs}, out, bench.stream())
                          : Device::multiply(given, *held, out, bench.stream())));
        return bench.fetch(to);
    };
    check_same(product(halves, 0.0F), product(halves, T()), product(floats, 0.0F));
}

/// Of many rows that lie on packs a dense weight of their own type is multiplied by the vendor's product.
template <class T, class Out>
void check_dense_half(Bench<TestDevice>& bench, std::int64_t outputs, std::int64_t inputs, std::int64_t rows) {
    using Device = TestDevice;
    CAPTURE(inputs);
    StoredWeight const weight(detail::format_of_rows<T>, outputs, inputs);
    auto const held = Device::hold_weight(bench.context(), weight.source());
    REQUIRE(held);
    SameNumbers<T> const in(rows * (inputs + 8), 814);
    auto const from = bench.send(in.halves);
    auto to = bench.send(std::vector<Out>(static_cast<std::size_t>(rows * (outputs + 8)), Out(77.0F)));
    REQUIRE(Device::multiply(TensorView<T const, 2, Device>(from.data(), {rows, inputs}, inputs + 8), *held,
                             TensorView<Out, 2, Device>(to.data(), {rows, outputs}, outputs + 8), bench.stream()));
    auto const out = bench.fetch(to);
    for (std::int64_t output = 0; output < outputs; ++output) {
        auto const values = weight.row(output);
        for (std::int64_t row = 0; row < rows; ++row) {
            double sum = 0.0;
            double magnitude = 0.0;
            for (std::int64_t i = 0; i < inputs; ++i) {
                auto const product = static_cast<double>(values[static_cast<std::size_t>(i)]) *
                                     static_cast<double>(in.floats[static_cast<std::size_t>(row * (inputs + 8) + i)]);
                sum += product;
                magnitude += std::abs(product);
            }
            auto const made =
                static_cast<double>(static_cast<float>(out[static_cast<std::size_t>(row * (outputs + 8) + output)]));
            // As many products and additions as inputs, in any order, and the rounding of the result.
            auto const error = static_cast<double>(inputs + 1) * 0x1p-24 * magnitude;
            REQUIRE(std::abs(made - sum) <= error + (std::abs(sum) + error) * roundoff<Out> + smallest<Out>);
        }
    }
    for (std::int64_t row = 0; row < rows; ++row)
        REQUIRE(static_cast<float>(out[static_cast<std::size_t>(row * (outputs + 8) + outputs)]) == 77.0F);
}

template <class T>
void check_half_experts(Bench<TestDevice>& bench, WeightFormat format, std::int64_t outputs, std::int64_t inputs) {
    using Device = TestDevice;
    CAPTURE(name_of(format));
    std::vector<Device::Weight> weights;
    for (int expert = 0; expert < 2; ++expert) {
        auto held = Device::hold_weight(bench.context(), StoredWeight(format, outputs, inputs).source());
        REQUIRE(held);
        weights.push_back(std::move(*held));
    }
    auto const bias = bench.send(numbers(outputs, 812));
    TensorView<float const, 1, Device> const biased(bias.data(), {outputs});
    auto const table = ExpertTable<Device>::create(bench.context(), {{&weights[0], biased}, {&weights[1], {}}});
    REQUIRE(table);
    auto const first = bench.send(std::vector<std::int32_t>{0, 2, 4});
    auto const tokens = bench.send(std::vector<std::int32_t>{1, 0, 2, 1});
    SameNumbers<T> const in(3 * inputs, 813);
    auto const halves = bench.send(in.halves);
    auto const floats = bench.send(in.floats);
    auto const product = [&]<class E, class Out>(Buffer<E, Device> const& from, Out) {
        auto to = bench.send(std::vector<Out>(static_cast<std::size_t>(4 * outputs)));
        REQUIRE(table->multiply(TensorView<E const, 2, Device>(from.data(), {3, inputs}), tokens.view(), first.view(),
                                to.matrix(4, outputs), bench.stream()));
        return bench.fetch(to);
    };
    check_same(product(halves, 0.0F), product(halves, T()), product(floats, 0.0F));
}

template <class T, class Cache>
void check_half_attention(Bench<TestDevice>& bench, AttentionProblem const& problem) {
    CAPTURE(problem.name);
    AttentionTensors<Cache> tensors(problem, 1U);
    for (auto& value : tensors.q) value = static_cast<float>(T(value));
    auto const expected = tensors.run(bench);
    auto const made = tensors.template run<TestDevice, T>(bench);
    REQUIRE(made.size() == expected.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
        CAPTURE(i);
        REQUIRE(is_rounded(made[i], expected[i]));
    }
}

/// A step's own rows, which are halves as its queries are.
void check_own_halves(Bench<TestDevice>& bench, AttentionProblem const& problem) {
    CAPTURE(problem.name);
    AttentionTensors<Float16> halves(problem, 1U);
    for (auto& value : halves.q) value = static_cast<float>(Float16(value));
    AttentionTensors<float> floats(problem, 1U);
    floats.q = halves.q;
    for (std::size_t i = 0; i < halves.keys->elements.size(); ++i)
        floats.keys->elements[i] = static_cast<float>(halves.keys->elements[i]);
    for (std::size_t i = 0; i < halves.values->elements.size(); ++i)
        floats.values->elements[i] = static_cast<float>(halves.values->elements[i]);
    auto const expected = floats.run(bench);
    floats.check(expected);
    auto const made = halves.template run<TestDevice, Float16>(bench);
    REQUIRE(made.size() == expected.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
        CAPTURE(i);
        REQUIRE(is_rounded(made[i], expected[i]));
    }
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("Products of halves on a device are those of the same floats, as they are or rounded once", T,
                   Bfloat16, Float16) {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    std::size_t number = 0;
    for (auto const& unit : weight_format_table) {
        // In a sample each format with one of the two types.
        if (!takes_alternative(number++, std::is_same_v<T, Float16> ? 1 : 0, 2)) continue;
        auto const format = unit.format;
        for (std::int64_t const rows : {1, 2, 3, 8})
            check_half_product<T>(*bench, format, 9, whole_blocks(format, 96), rows);
        // Tiles of matrices on CUDA and on the fake vendor.
        check_half_product<T>(*bench, format, 34, whole_blocks(format, 96), 25);
        check_half_product<T>(*bench, format, 9, whole_blocks(format, 64), 26, true);
        // More than activations are staged at once.
        check_half_product<T>(*bench, format, 2, 4352, 2);
        check_half_experts<T>(*bench, format, 21, whole_blocks(format, 96));
    }
    for (auto const format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8}) {
        check_half_product<T>(*bench, format, 33, 61, 26);
        check_half_product<T>(*bench, format, 9, 37, 2);
        check_half_experts<T>(*bench, format, 5, 67);
    }
}

TEST_CASE_TEMPLATE("Products of many halves by a dense weight of their type are within the rounding of their sums", T,
                   Bfloat16, Float16) {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    for (auto const& [outputs, inputs, rows] : {std::array<std::int64_t, 3>{24, 64, 40}, {8, 200, 17}, {72, 16, 70}}) {
        check_dense_half<T, T>(*bench, outputs, inputs, rows);
        check_dense_half<T, float>(*bench, outputs, inputs, rows);
    }
}

TEST_CASE_TEMPLATE("step_attention of halves is that of the same floats, rounded once", T, Bfloat16, Float16) {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    std::size_t number = 0;
    for (auto const& problem : attention_problems()) {
        // An emulator takes its time: elements of a cache in turn, and in a sample each problem for one of the two types.
        auto const turn = number++ % 3;
        if (!takes_alternative(number, std::is_same_v<T, Float16> ? 1 : 0, 2)) continue;
        if (turn == 0) check_half_attention<T, float>(*bench, problem);
        if (turn == 1) check_half_attention<T, Bfloat16>(*bench, problem);
        if (turn == 2) check_half_attention<T, std::int8_t>(*bench, problem);
    }
}

TEST_CASE("step_attention of the step's own rows in fp16 is that of the same floats, rounded once") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    for (auto const& problem : attention_problems()) {
        if (problem.is_own) check_own_halves(*bench, problem);
    }
}

TEST_SUITE_END();
