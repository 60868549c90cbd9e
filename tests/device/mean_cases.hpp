// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernel_cases.hpp"
#include "test_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

/// Means of texts of these lengths, which lie one after another; the bits of a text's do not depend on those beside it.
template <class T, class B>
void check_means(Bench<B>& bench, std::vector<std::int64_t> const& lengths, std::int64_t width, std::int64_t stride,
                 std::int64_t shift) {
    CAPTURE(width);
    CAPTURE(stride);
    std::vector<std::int32_t> last;
    std::int32_t rows = 0;
    for (auto const length : lengths) last.push_back((rows += static_cast<std::int32_t>(length)) - 1);
    auto const texts = static_cast<std::int64_t>(lengths.size());
    TestRows<T> const in(rows, width, stride, shift, 81);
    TestRows<T> const made(texts, width, stride, shift, 82);
    auto const from = bench.send(in.values);
    auto to = bench.send(made.values);
    auto const ends = bench.send(last);
    TensorView<T const, 2, B> const all(from.data() + shift, {rows, width}, stride);
    REQUIRE(mean_rows<T>(TensorView<std::int32_t const, 1, B>(ends.view()), all, made.view(to), bench.stream()));
    auto const out = made.fetched(bench, to);
    std::int64_t first = 0;
    for (std::int64_t text = 0; text < texts; ++text) {
        CAPTURE(text);
        auto const length = lengths[static_cast<std::size_t>(text)];
        for (std::int64_t i = 0; i < width; ++i) {
            double mean = 0.0;
            double size = 0.0;
            for (std::int64_t row = first; row < first + length; ++row) {
                mean += in.at(row, i) / static_cast<double>(length);
                size += std::abs(in.at(row, i)) / static_cast<double>(length);
            }
            // A sum of 64, those sums, and a division.
            auto const chain =
                std::min<double>(64.0, static_cast<double>(length)) + static_cast<double>(length / 64) + 1;
            auto const bound = size * chain * 0x1p-24 + std::abs(mean) * roundoff<T> + smallest<T>;
            REQUIRE(std::abs(out.at(text, i) - mean) <= bound * 1.01);
        }
        auto alone = bench.send(std::vector<T>(static_cast<std::size_t>(width)));
        auto const end = bench.send(std::vector<std::int32_t>{static_cast<std::int32_t>(length - 1)});
        REQUIRE(mean_rows<T>(TensorView<std::int32_t const, 1, B>(end.view()), all.rows(first, length),
                             alone.matrix(1, width), bench.stream()));
        auto const same = bench.fetch(alone);
        for (std::int64_t i = 0; i < width; ++i)
            REQUIRE(static_cast<double>(static_cast<float>(same[static_cast<std::size_t>(i)])) == out.at(text, i));
        first += length;
    }
}

}  // namespace

TEST_CASE_TEMPLATE("mean_rows is each text's mean, whatever lies beside it", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    check_means<float>(*bench, {1, 5, 64, 65, 200}, 64, 64, 0);
    check_means<float>(*bench, {3, 129}, 33, 40, 1);
    // One text, whose rows are no packs apart.
    check_means<float>(*bench, {129}, 32, 33, 0);
    check_means<Bfloat16>(*bench, {7, 1, 70}, 24, 24, 0);
    check_means<Float16>(*bench, {2, 130}, 19, 19, 0);

    // Integers have exact sums.
    auto whole = bench->send(std::vector<float>{1, 2, 3, 6, 5, 10, -4, 8});
    auto means = bench->send(std::vector<float>(8, 7.0F));
    TensorView<float const, 2, B> const in = whole.matrix(4, 2);
    auto const mean = [&](std::vector<std::int32_t> const& last) {
        auto const ends = bench->send(last);
        auto const texts = static_cast<std::int64_t>(last.size());
        REQUIRE(mean_rows<float>(TensorView<std::int32_t const, 1, B>(ends.view()), in, means.matrix(texts, 2),
                                 bench->stream()));
        auto values = bench->fetch(means);
        values.resize(last.size() * 2);
        return values;
    };
    CHECK(mean({1, 3}) == std::vector<float>{2, 4, 0.5F, 9});
    // A text without rows, inert rows of a step, rows that are not there.
    CHECK(mean({0, 0, 3}) == std::vector<float>{1, 2, 0, 0, 4.0F / 3.0F, 8});
    CHECK(mean({3, -1, -1}) == std::vector<float>{1.25F, 6.5F, 0, 0, 0, 0});
    CHECK(mean({4, 3}) == std::vector<float>{0, 0, 0, 0});

    auto const ends = bench->send(std::vector<std::int32_t>{1, 3});
    TensorView<std::int32_t const, 1, B> const last = ends.view();
    for (auto const& result : {mean_rows<float>(last, in, means.matrix(3, 2), bench->stream()),
                               mean_rows<float>(last, in, means.matrix(2, 1), bench->stream())}) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code() == ErrorCode::shape_mismatch);
        CHECK(result.error().subject() == "mean_rows");
    }
}
