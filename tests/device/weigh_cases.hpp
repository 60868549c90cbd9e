// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel_cases.hpp"
#include "test_rows.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

/// Tokens' rows for each of their experts, in some order of pairs, whose weights lie `gap` floats further apart than they are many.
template <class T, class B>
void check_weighed_rows(Bench<B>& bench, RowShape const& shape, std::int64_t chosen, std::int64_t gap) {
    CAPTURE(shape.width);
    CAPTURE(shape.stride);
    CAPTURE(chosen);
    auto const pairs = shape.rows * chosen;
    std::vector<std::int32_t> places(static_cast<std::size_t>(pairs));
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937(7));
    TestRows<T> const in(shape.rows, shape.width, shape.stride, shape.shift, 61);
    TestRows<T> const made(pairs, shape.width, shape.stride, shape.shift, 62);
    auto const weights = numbers(shape.rows * (chosen + gap), 63);
    auto from = bench.send(in.values);
    auto to = bench.send(made.values);
    auto const order = bench.send(places);
    auto const factors = bench.send(weights);
    TensorView<T const, 2, B> const rows = in.view(from);
    TensorView<float const, 2, B> const by_pair(factors.data(), {shape.rows, chosen}, chosen + gap);
    REQUIRE(weigh_rows<T>(rows, TensorView<std::int32_t const, 1, B>(order.view()), by_pair, made.view(to),
                          bench.stream()));
    auto const out = made.fetched(bench, to);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
        CAPTURE(pair);
        auto const token = pair / chosen;
        auto const weight = weights[static_cast<std::size_t>(token * (chosen + gap) + pair % chosen)];
        auto const place = places[static_cast<std::size_t>(pair)];
        for (std::int64_t i = 0; i < shape.width; ++i) {
            // One product, rounded once to float and once to T.
            auto const expected = static_cast<float>(T(static_cast<float>(in.at(token, i)) * weight));
            REQUIRE(out.at(place, i) == static_cast<double>(expected));
        }
    }
}

}  // namespace

TEST_CASE_TEMPLATE("weigh_rows gives each expert its tokens' rows, times its weights", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        check_weighed_rows<float>(*bench, shape, 1, 0);
        check_weighed_rows<Bfloat16>(*bench, shape, 3, 1);
        check_weighed_rows<Float16>(*bench, shape, 2, 0);
    }
    auto values = bench->send(std::vector<float>(24, 1.0F));
    auto const numbers_of = bench->send(std::vector<std::int32_t>{0, 1, 2, 3});
    TensorView<std::int32_t const, 1, B> const places = numbers_of.view();
    TensorView<float const, 2, B> const in(values.data(), {2, 3});
    TensorView<float const, 2, B> const weights(values.data(), {2, 2});
    auto const out = values.matrix(4, 3);
    auto const refused = [&](TensorView<float const, 2, B> rows, TensorView<std::int32_t const, 1, B> order,
                             TensorView<float const, 2, B> factors, TensorView<float, 2, B> to) {
        auto const done = weigh_rows<float>(rows, order, factors, to, bench->stream());
        REQUIRE_FALSE(done);
        CHECK(done.error().code() == ErrorCode::shape_mismatch);
        return done.error().message();
    };
    CHECK(weigh_rows<float>(in, places, weights, TensorView<float, 2, B>(values.data() + 12, {4, 3}), bench->stream()));
    CHECK(refused(in, places, weights, values.matrix(4, 2)).find("as wide") != std::string::npos);
    CHECK(refused(in, places, {values.data(), {1, 4}}, out).find("a row per token") != std::string::npos);
    CHECK(refused(in, places.part(0, 3), weights, out).find("one for each weight") != std::string::npos);
    CHECK(refused(in, places, weights, values.matrix(3, 3)).find("a row for each weight") != std::string::npos);
    bench->wait();
}
