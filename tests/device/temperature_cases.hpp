// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/device_math.hpp>

#include "kernel_cases.hpp"
#include "test_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

/// What the scores of these positions grow by, whose steps are found in float.
template <class T, class B>
void check_temperature(Bench<B>& bench, RowShape const& shape, std::int64_t step, float growth) {
    CAPTURE(shape.width);
    CAPTURE(shape.stride);
    std::vector<std::int32_t> const known{-1, 0, 2, 3, 4, 8191, 8192, 8193, 9999, 81919, 1000003, 16777217, 1 << 30};
    std::vector<std::int32_t> positions;
    for (std::int64_t row = 0; row < shape.rows; ++row)
        positions.push_back(known[static_cast<std::size_t>(row + shape.width) % known.size()]);
    TestRows<T> const rows(shape.rows, shape.width, shape.stride, shape.shift, 91);
    auto buffer = bench.send(rows.values);
    auto const at = bench.send(positions);
    REQUIRE(attention_temperature<T>(rows.view(buffer), TensorView<std::int32_t const, 1, B>(at.view()), step, growth,
                                     bench.stream()));
    auto const out = rows.fetched(bench, buffer);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        CAPTURE(row);
        auto const position = static_cast<float>(positions[static_cast<std::size_t>(row)]);
        auto const steps = static_cast<double>(std::floor((position + 1.0F) / static_cast<float>(step)));
        auto const factor = 1.0 + std::log1p(steps) * static_cast<double>(growth);
        for (std::int64_t i = 0; i < shape.width; ++i) {
            auto const expected = rows.at(row, i) * factor;
            // The logarithm's two units, three roundings and the result's.
            auto const bound = std::abs(expected) * (7 * 0x1p-24 + roundoff<T>)+smallest<T>;
            REQUIRE(std::abs(out.at(row, i) - expected) <= bound);
        }
    }
}

}  // namespace

TEST_CASE_TEMPLATE("attention_temperature multiplies queries by what their scores grow with their position", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        check_temperature<float>(*bench, shape, 8192, 0.1F);
        check_temperature<Bfloat16>(*bench, shape, 4, 0.3F);
        check_temperature<Float16>(*bench, shape, 1, 0.1F);
    }
    auto values = bench->send(std::vector<float>(8, 1.0F));
    auto const at = bench->send(std::vector<std::int32_t>{0, 1});
    TensorView<std::int32_t const, 1, B> const positions = at.view();
    auto const other = attention_temperature<float>(values.matrix(4, 2), positions, 4, 0.1F, bench->stream());
    REQUIRE_FALSE(other);
    CHECK(other.error().code() == ErrorCode::shape_mismatch);
    CHECK(other.error().message().find("each token needs a position") != std::string::npos);
    auto const none = attention_temperature<float>(values.matrix(2, 4), positions, 0, 0.1F, bench->stream());
    REQUIRE_FALSE(none);
    CHECK(none.error().code() == ErrorCode::invalid_argument);
    CHECK(none.error().message().find("step") != std::string::npos);
}

TEST_CASE("device_log is within two units in the last place from 1 on") {
    auto worst = 0.0;
    auto const look_at = [&](float x) {
        auto const expected = std::log(static_cast<double>(x));
        auto const error = std::abs(static_cast<double>(shardwise::detail::device_log(x)) - expected);
        worst = std::max(worst, expected == 0.0 ? error * 0x1p100 : error / expected);
    };
    for (int i = 1; i < 70000; ++i) look_at(static_cast<float>(i));
    for (float x = 1.0F; x < 0x1p120F; x *= 1.0007F) look_at(x);
    CAPTURE(worst);
    CHECK(worst <= 2 * 0x1p-23);
    CHECK(shardwise::detail::device_log(0.5F) == doctest::Approx(-0.693147F));
}
