// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "row_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

/// The definition: the first of the greatest numbers of a row; -1 of none.
std::int32_t first_greatest(TestRows<float> const& rows, std::int64_t row) {
    std::int32_t found = -1;
    for (std::int64_t i = 0; i < rows.width; ++i) {
        auto const value = rows.at(row, i);
        if (std::isnan(value)) continue;
        if (found < 0 || value > rows.at(row, found)) found = static_cast<std::int32_t>(i);
    }
    return found;
}

/// Of whole rows, and of their vocabulary in two parts, which begins with the id 100.
template <class B>
void check_arg_max(Bench<B>& bench, TestRows<float> const& rows) {
    CAPTURE(rows.width);
    CAPTURE(rows.stride);
    auto const count = rows.rows;
    auto logits = bench.send(rows.values);
    auto ids = bench.send(std::vector<std::int32_t>(static_cast<std::size_t>(count), 77));
    auto parts_ids = bench.send(std::vector<std::int32_t>(static_cast<std::size_t>(count), 77));
    TensorView<float const, 2, B> const whole = rows.view(logits);
    REQUIRE(arg_max(whole, ids.view(), bench.stream()));
    auto const left = rows.width / 3;
    std::vector<std::vector<std::int64_t>> keys;
    for (auto const& [begin, end] : {std::array{std::int64_t{0}, left}, std::array{left, rows.width}}) {
        auto found = bench.send(std::vector<std::int64_t>(static_cast<std::size_t>(count), 77));
        REQUIRE(largest_logits(whole.columns(begin, end - begin), 100 + begin, found.view(), bench.stream()));
        keys.push_back(bench.fetch(found));
    }
    for (std::size_t i = 0; i < keys[0].size(); ++i) keys[0][i] = std::max(keys[0][i], keys[1][i]);
    auto merged = bench.send(keys[0]);
    REQUIRE(ids_of_keys(merged.view(), parts_ids.view(), bench.stream()));
    auto const made = bench.fetch(ids);
    auto const made_of_parts = bench.fetch(parts_ids);
    for (std::int64_t row = 0; row < count; ++row) {
        auto const expected = first_greatest(rows, row);
        REQUIRE(made[static_cast<std::size_t>(row)] == expected);
        REQUIRE(made_of_parts[static_cast<std::size_t>(row)] == (expected < 0 ? -1 : expected + 100));
    }
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("arg_max finds the first of the largest logits, whole or in parts of the vocabulary", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes)
        check_arg_max(*bench, TestRows<float>(shape.rows, shape.width, shape.stride, shape.shift, 301));
    // More than a thread's loads at once; a few values only, so that many are equal and threads disagree about which comes first.
    for (std::int64_t const width : {9000, 8191}) {
        TestRows<float> rows(3, width, width, 0, 302);
        for (auto& value : rows.values) value = std::round(value * 2.0F);
        check_arg_max(*bench, rows);
    }
}

TEST_CASE_TEMPLATE("arg_max: zeros are equal, minus infinity is a number and NaN never wins", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    auto const nan = std::nanf("");
    for (std::int64_t const width : {8, 2052, 1030}) {
        TestRows<float> rows(6, width, width, 0, 303);
        for (std::int64_t row = 0; row < 6; ++row) {
            for (std::int64_t i = 0; i < width; ++i)
                rows.set(row, i, row == 0 ? -1.0F : row == 1 ? -infinity : row == 5 ? -0x1p-149F : nan);
        }
        // Of zeros the first, whatever its sign.
        rows.set(0, 3, -0.0F);
        rows.set(0, 6, 0.0F);
        rows.set(3, width - 1, -infinity);
        rows.set(4, width - 2, infinity);
        rows.set(4, width - 1, infinity);
        check_arg_max(*bench, rows);
    }
    // What a rank without columns has.
    auto keys = bench->send(std::vector<std::int64_t>{5, 5});
    auto ids = bench->send(std::vector<std::int32_t>{5, 5});
    REQUIRE(largest_logits(TensorView<float const, 2, B>(nullptr, {2, 0}), 0, keys.view(), bench->stream()));
    REQUIRE(ids_of_keys(keys.view(), ids.view(), bench->stream()));
    CHECK(bench->fetch(ids) == std::vector<std::int32_t>{-1, -1});
    auto buffer = bench->send(numbers(12, 1));
    TensorView<float const, 2, B> const in = buffer.matrix(3, 4);
    auto const places = arg_max(in, ids.view(), bench->stream());
    REQUIRE_FALSE(places);
    CHECK(places.error().code() == ErrorCode::shape_mismatch);
    auto const beyond = largest_logits(TensorView<float const, 2, B>(buffer.matrix(2, 4)),
                                       std::numeric_limits<std::int32_t>::max(), keys.view(), bench->stream());
    REQUIRE_FALSE(beyond);
    CHECK(beyond.error().place() == "first_id");
}

TEST_SUITE_END();
