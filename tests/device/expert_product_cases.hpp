// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/device/expert_table.hpp>

#include "product_cases.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

/// Rows of experts in one call, by what the device alone knows, have the bits of a product of one row and add_row.
void check_expert_products(Bench<TestDevice>& bench, WeightFormat format, std::int64_t outputs, std::int64_t inputs) {
    CAPTURE(traits(format).name);
    CAPTURE(inputs);
    // The second has no rows.
    std::vector<std::int32_t> const first{0, 2, 2, 5};
    std::vector<std::int32_t> const tokens{1, 0, 1, 2, 0};
    constexpr std::int64_t experts = 3;
    StoredWeight const all(format, experts * outputs, inputs);
    std::vector<TestDevice::Weight> weights;
    auto const part = [&](std::span<std::byte const> bytes, std::int64_t expert) {
        auto const size = bytes.size() / static_cast<std::size_t>(experts);
        return bytes.subspan(static_cast<std::size_t>(expert) * size, size);
    };
    for (std::int64_t expert = 0; expert < experts; ++expert) {
        auto source = all.source();
        source.outputs = outputs;
        source.data = part(source.data, expert);
        source.scales = part(source.scales, expert);
        auto held = TestDevice::hold_weight(bench.context(), source);
        REQUIRE(held);
        weights.push_back(std::move(*held));
    }
    auto const biases = bench.send(numbers(experts * outputs, 701));
    std::vector<ExpertFactor<TestDevice>> factors;
    for (std::int64_t expert = 0; expert < experts; ++expert) {
        TensorView<float const, 1, TestDevice> bias;
        // One of them has none.
        if (expert != 2) bias = {biases.data() + expert * outputs, {outputs}};
        factors.push_back({&weights[static_cast<std::size_t>(expert)], bias});
    }
    auto const table = ExpertTable<TestDevice>::create(bench.context(), factors);
    REQUIRE(table);
    CHECK(table->multiplies());
    auto const in = bench.send(numbers(5 * inputs, 702));
    auto const begins = bench.send(first);
    auto const places = bench.send(tokens);
    for (bool const is_taken : {true, false}) {
        // Where rows are read does not depend on the format.
        if (!is_taken && format != WeightFormat::f32) continue;
        auto made = bench.send(std::vector<float>(static_cast<std::size_t>(5 * outputs), 7.0F));
        auto wanted = bench.send(std::vector<float>(static_cast<std::size_t>(5 * outputs), 7.0F));
        TensorView<float const, 2, TestDevice> const from(in.data(), {is_taken ? 3 : 5, inputs});
        TensorView<std::int32_t const, 1, TestDevice> of_rows;
        if (is_taken) of_rows = places.view();
        REQUIRE(table->multiply(from, of_rows, begins.view(), made.matrix(5, outputs), bench.stream()));
        for (std::size_t expert = 0; expert < 3; ++expert) {
            for (auto row = first[expert]; row < first[expert + 1]; ++row) {
                auto const out = wanted.matrix(5, outputs).rows(row, 1);
                auto const token = is_taken ? tokens[static_cast<std::size_t>(row)] : row;
                REQUIRE(TestDevice::multiply(from.rows(token, 1), weights[expert], out, bench.stream()));
                auto const& bias = factors[expert].bias;
                if (!bias.empty()) REQUIRE(add_row<float>(bias, out, bench.stream()));
            }
        }
        CHECK(bench.fetch(made) == bench.fetch(wanted));
    }
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE("ExpertTable: rows of experts that the device alone counts have the bits of products of one row") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    for (std::size_t i = 0; i < weight_format_count; ++i) {
        auto const format = static_cast<WeightFormat>(i);
        if (has_device_products(format)) check_expert_products(*bench, format, 37, 256);
    }
    // No whole chunk at the end; more than is staged at once.
    check_expert_products(*bench, WeightFormat::f32, 5, 67);
    check_expert_products(*bench, WeightFormat::bf16, 3, 13000);
}

TEST_CASE("ExpertTable: experts of unlike sizes are told of, and what does not fit them is refused") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    std::vector<TestDevice::Weight> weights;
    for (std::int64_t const outputs : {4, 5}) {
        auto held = TestDevice::hold_weight(bench->context(), StoredWeight(WeightFormat::f32, outputs, 8).source());
        REQUIRE(held);
        weights.push_back(std::move(*held));
    }
    auto const unlike = ExpertTable<TestDevice>::create(bench->context(), {{&weights[0], {}}, {&weights[1], {}}});
    REQUIRE(unlike);
    CHECK_FALSE(unlike->multiplies());
    auto const none = ExpertTable<TestDevice>::create(bench->context(), {});
    REQUIRE(none);
    CHECK_FALSE(none->multiplies());
    auto const table = ExpertTable<TestDevice>::create(bench->context(), {{&weights[0], {}}});
    REQUIRE(table);
    auto memory = bench->send(std::vector<float>(64));
    auto places = bench->send(std::vector<std::int32_t>(4));
    auto const place = [&](std::int64_t inputs, std::int64_t outputs, std::int64_t first, std::int64_t tokens) {
        auto const done =
            table->multiply(TensorView<float const, 2, TestDevice>(memory.data(), {2, inputs}),
                            places.view().part(0, tokens), places.view().part(0, first),
                            TensorView<float, 2, TestDevice>(memory.data(), {3, outputs}), bench->stream());
        REQUIRE_FALSE(done);
        return std::string(done.error().place());
    };
    CHECK(place(7, 4, 2, 3) == "in");
    CHECK(place(8, 5, 2, 3) == "out");
    CHECK(place(8, 4, 3, 3) == "first");
    CHECK(place(8, 4, 2, 2) == "tokens");
    CHECK(place(8, 4, 2, 0) == "tokens");
}

TEST_SUITE_END();
