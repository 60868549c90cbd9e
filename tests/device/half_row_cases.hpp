// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gated_delta_cases.hpp"
#include "product_cases.hpp"
#include "step_cases.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

// Rows of halves on a device: kernels compute in float whatever rows are stored in, so that they make what they make of the same numbers in
// floats, rounded once. How far floats may be off float64 is what the other cases say.

namespace {

/// The same numbers as floats, in the same places.
template <class T>
TestRows<float> widened(TestRows<T> const& rows) {
    TestRows<float> wide(rows.rows, rows.width, rows.stride, rows.shift, 1);
    for (std::size_t i = 0; i < rows.values.size(); ++i) wide.values[i] = static_cast<float>(rows.values[i]);
    return wide;
}

/// Bit for bit, but that there are many NaN.
template <class T>
bool is_rounded(T made, float value) {
    if (std::isnan(value)) return std::isnan(static_cast<float>(made));
    return made.bits == T(value).bits;
}

template <class T>
void check_rounded(TestRows<T> const& made, TestRows<float> const& floats) {
    for (std::int64_t row = 0; row < made.rows; ++row) {
        for (std::int64_t i = 0; i < made.width; ++i) {
            CAPTURE(row);
            CAPTURE(i);
            REQUIRE(is_rounded(made.values[made.place(row, i)], floats.values[floats.place(row, i)]));
        }
    }
}

/// Calls kernel(in, out) with rows of halves and with the same numbers in floats.
template <class T, class Kernel>
void check_row_kernel(Bench<TestDevice>& bench, RowShape shape, float size, Kernel const& kernel) {
    CAPTURE(shape.width);
    CAPTURE(shape.shift);
    TestRows<T> in(shape.rows, shape.width, shape.stride, shape.shift, 801, size);
    if (shape.width > 8 && shape.rows > 0) {
        in.set(0, 0, std::numeric_limits<float>::infinity());
        in.set(0, 1, -0.0F);
        in.set(0, 2, std::nanf(""));
    }
    auto const wide = widened(in);
    auto from = bench.send(in.values);
    auto wide_from = bench.send(wide.values);
    kernel(in.view(from), in.view(from));
    kernel(wide.view(wide_from), wide.view(wide_from));
    check_rounded(in.fetched(bench, from), wide.fetched(bench, wide_from));
}

template <class T>
void check_half_rows(Bench<TestDevice>& bench, RowShape shape) {
    using Device = TestDevice;
    auto& stream = bench.stream();
    check_row_kernel<T>(bench, shape, 90.0F, [&]<class E>(TensorView<E, 2, Device> in, TensorView<E, 2, Device> out) {
        REQUIRE(soft_cap(TensorView<E const, 2, Device>(in), out, 30.0F, stream));
    });
    auto const learned = bench.send(std::vector<float>{0.8F, 0.7F, 0.5F, -1e-6F});
    check_row_kernel<T>(bench, shape, 6.0F, [&]<class E>(TensorView<E, 2, Device> in, TensorView<E, 2, Device> out) {
        TensorView<float const, 1, Device> const four(learned.data(), {4});
        REQUIRE(xielu(TensorView<E const, 2, Device>(in), four, out, stream));
    });
    TestRows<T> const gate(shape.rows, 1, 3, 0, 802, 5.0F);
    check_row_kernel<T>(bench, shape, 1.0F, [&]<class E>(TensorView<E, 2, Device> in, TensorView<E, 2, Device> out) {
        std::vector<E> values;
        for (auto const value : gate.values) values.push_back(E(static_cast<float>(value)));
        auto const gates = bench.send(values);
        TensorView<E const, 2, Device> const numbers_of_rows(gates.data(), {shape.rows, 1}, 3);
        REQUIRE(scale_rows(numbers_of_rows, TensorView<E const, 2, Device>(in), out, ActivationKind::sigmoid, stream));
        bench.wait();
    });
}

template <class T>
void check_half_combination(Bench<TestDevice>& bench, RowShape shape) {
    using Device = TestDevice;
    constexpr std::int64_t chosen = 3;
    auto const pairs = shape.rows * chosen;
    TestRows<T> const rows(std::max<std::int64_t>(pairs, 1), shape.width, shape.stride, shape.shift, 803);
    TestRows<T> const out(shape.rows, shape.width, shape.stride, shape.shift, 804);
    auto const weights = bench.send(numbers(pairs, 805));
    std::vector<std::int32_t> order(static_cast<std::size_t>(pairs));
    for (std::int64_t i = 0; i < pairs; ++i)
        order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(pairs - 1 - i);
    auto const places = bench.send(order);
    auto const combined = [&](auto const& from_rows, auto const& to_rows) {
        auto from = bench.send(from_rows.values);
        auto to = bench.send(to_rows.values);
        using E = typename std::remove_cvref_t<decltype(from_rows.values)>::value_type;
        REQUIRE(combine_rows(TensorView<E const, 2, Device>(from_rows.view(from)),
                             TensorView<std::int32_t const, 1, Device>(places.view()),
                             TensorView<float const, 2, Device>(weights.data(), {shape.rows, chosen}), to_rows.view(to),
                             bench.stream()));
        return to_rows.fetched(bench, to);
    };
    check_rounded(combined(rows, out), combined(widened(rows), widened(out)));
}

/// What a cache takes of rows of halves is what it takes of the same numbers in floats.
template <class T, class Cache>
void check_half_store(Bench<TestDevice>& bench, std::int64_t heads, std::int64_t head_width, std::int64_t stride,
                      std::int64_t shift) {
    using Device = TestDevice;
    CAPTURE(head_width);
    constexpr std::int64_t memory_rows = 7 * 16;
    auto const step = some_step();
    auto const width = heads * head_width;
    auto table = StepTable<Device>::create(bench.context(), bounds_of_steps);
    REQUIRE(table);
    REQUIRE(table->write(step.input(), bench.stream()));
    TestRows<T> const in(static_cast<std::int64_t>(step.ids.size()) + 2, width, stride, shift, 806);
    auto const stored = [&](auto const& rows) {
        using E = typename std::remove_cvref_t<decltype(rows.values)>::value_type;
        auto from = bench.send(rows.values);
        auto memory = bench.send(std::vector<Cache>(static_cast<std::size_t>(memory_rows * width), Cache(3)));
        auto scales = bench.send(std::vector<float>(static_cast<std::size_t>(memory_rows * heads), 3.0F));
        REQUIRE(store_rows<Cache>(TensorView<E const, 2, Device>(rows.view(from)), memory.matrix(memory_rows, width),
                                  *table, 1, bench.stream(), scales.matrix(memory_rows, heads)));
        return Stored<Cache>{bench.fetch(memory), bench.fetch(scales)};
    };
    auto const made = stored(in);
    auto const expected = stored(widened(in));
    CHECK(is_same_memory(made.elements, expected.elements));
    CHECK(made.scales == expected.scales);
}

template <class T>
void check_half_table(Bench<TestDevice>& bench, WeightFormat format, std::int64_t inputs) {
    using Device = TestDevice;
    CAPTURE(name_of(format));
    constexpr std::int64_t first_row = 50;
    auto const width = whole_blocks(format, inputs);
    auto const table = Device::hold_weight(bench.context(), StoredWeight(format, 9, width, 32).source());
    REQUIRE(table);
    auto const ids = bench.send(some_ids(12, first_row, 9));
    // Rows on packs, on halves of them, and on neither.
    for (auto const& [stride, shift] :
         {std::pair{round_up(width, 8), 0}, {round_up(width, 8) + 4, 4}, {width + 3, 1}}) {
        TestRows<T> const made(12, width, stride, shift, 7);
        auto const taken = [&](auto const& rows) {
            auto to = bench.send(rows.values);
            REQUIRE(embedding(TensorView<std::int32_t const, 1, Device>(ids.view()), *table, rows.view(to),
                              bench.stream(), first_row));
            return rows.fetched(bench, to);
        };
        check_rounded(taken(made), taken(widened(made)));
    }
}

/// A bias in float is added before anything is rounded.
template <class T>
void check_added_row(Bench<TestDevice>& bench, RowShape shape) {
    using Device = TestDevice;
    TestRows<T> const to(shape.rows, shape.width, shape.stride, shape.shift, 807);
    auto const bias = numbers(shape.width, 808);
    auto const row = bench.send(bias);
    auto rows = bench.send(to.values);
    REQUIRE(add_row<T>(TensorView<float const, 1, Device>(row.view()), to.view(rows), bench.stream()));
    auto const made = to.fetched(bench, rows);
    for (std::int64_t i = 0; i < shape.rows; ++i) {
        for (std::int64_t j = 0; j < shape.width; ++j) {
            auto const sum = static_cast<float>(to.at(i, j)) + bias[static_cast<std::size_t>(j)];
            REQUIRE(is_rounded(made.values[made.place(i, j)], sum));
        }
    }
}

template <class T>
void check_half_delta(Bench<TestDevice>& bench) {
    using Device = TestDevice;
    DeltaShape const shape{.key_heads = 2, .value_heads = 4, .key_dim = 24, .value_dim = 40, .kernel = 4};
    TestDelta test(shape, 5);
    for (auto* const values : {&test.in, &test.ba}) {
        for (auto& value : *values) value = static_cast<float>(T(value));
    }
    auto const expected = run_delta(bench, test, test.tokens);
    std::vector<T> in;
    std::vector<T> ba;
    for (auto const value : test.in) in.push_back(T(value));
    for (auto const value : test.ba) ba.push_back(T(value));
    auto const rows = bench.send(in);
    auto const gates = bench.send(ba);
    auto const convolution = bench.send(test.convolution);
    auto const dt_bias = bench.send(test.dt_bias);
    auto const decay = bench.send(test.decay);
    auto const norm = bench.send(test.norm);
    DeltaWeights<Device> const weights{convolution.view(), dt_bias.view(), decay.view(), norm.view(), 1e-5F};
    auto state = bench.send(std::vector<float>(static_cast<std::size_t>(shape.state_elements(2)), 7.0F));
    auto const floats = gated_delta_workspace<Device>(shape, 2, test.tokens);
    auto workspace = bench.send(std::vector<float>(static_cast<std::size_t>(floats), 7.0F));
    auto out = bench.send(std::vector<T>(expected.out.size()));
    REQUIRE(gated_delta(TensorView<T const, 2, Device>(rows.data(), {test.tokens, test.in_width()}),
                        TensorView<T const, 2, Device>(gates.data(), {test.tokens, test.ba_width()}), shape, weights,
                        true, state.view(), workspace.view(), out.matrix(test.tokens, test.out_width()),
                        bench.stream()));
    CHECK(bench.fetch(state) == expected.state);
    auto const made = bench.fetch(out);
    for (std::size_t i = 0; i < made.size(); ++i) REQUIRE(is_rounded(made[i], expected.out[i]));
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("Rows of halves on a device are what the same numbers in floats give, rounded once", T, Bfloat16,
                   Float16) {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        check_half_rows<T>(*bench, shape);
        check_half_combination<T>(*bench, shape);
    }
    for (auto const& unit : weight_format_table) {
        check_half_table<T>(*bench, unit.format, 160);
        check_half_table<T>(*bench, unit.format, 37);
    }
    check_half_delta<T>(*bench);
}

TEST_CASE_TEMPLATE("Norms of halves on a device by weights in float are within the rounding of their arithmetic", T,
                   Bfloat16, Float16) {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        bool const in_place = shape.rows % 2 == 0;
        check_rms_norm<T, float>(*bench, shape.rows, shape.width, shape.stride, in_place, 1e-5F, 1.0F, shape.shift);
        check_layer_norm<T, float>(*bench, shape, in_place, true);
        check_layer_norm<T, float>(*bench, shape, in_place, false);
        check_added_row<T>(*bench, shape);
    }
}

TEST_CASE_TEMPLATE("Caches on a device take of rows of halves what they take of floats", T, Bfloat16, Float16) {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    for (auto const& [heads, head_width, gap, shift] :
         {std::array<std::int64_t, 4>{2, 64, 0, 0}, {3, 24, 8, 0}, {1, 12, 4, 0}, {1, 5, 0, 0}, {2, 8, 0, 1}}) {
        auto const stride = heads * head_width + gap;
        check_half_store<T, float>(*bench, heads, head_width, stride, shift);
        check_half_store<T, Bfloat16>(*bench, heads, head_width, stride, shift);
        check_half_store<T, std::int8_t>(*bench, heads, head_width, stride, shift);
    }
}

TEST_SUITE_END();
