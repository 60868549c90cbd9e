// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/device/sample.hpp>
#include <shardwise/kernels/sample.hpp>

#include "test_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace {

using TestTable = SamplingTable<TestDevice>;

/// The host's tokens; -1 where it refuses a row.
std::vector<std::int32_t> sample_here(TestRows<float> const& logits, std::vector<SamplingRow> const& rows) {
    HostContext host({.threads = 2});
    std::vector<std::int32_t> tokens(rows.size(), -7);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        auto stream = host.make_stream();
        auto const* const row = logits.values.data() + logits.place(static_cast<std::int64_t>(i), 0);
        (void)sample({row, {1, logits.width}}, {rows.data() + i, 1}, {tokens.data() + i, {1}}, stream);
        (void)stream.synchronize(Deadline::after(std::chrono::seconds{60}));
    }
    return tokens;
}

/// The device's tokens are the host's.
void check_sampled_rows(Bench<TestDevice>& bench, TestRows<float> const& logits, std::vector<SamplingRow> const& rows) {
    CAPTURE(logits.width);
    MemoryCounter host;
    auto table = TestTable::create(bench.context(), host, {.rows = 64, .vocabulary = logits.width, .history = 1000});
    REQUIRE(table);
    CHECK(table->bytes() == *TestTable::bytes_for({.rows = 64, .vocabulary = logits.width, .history = 1000}));
    // Of each row forty bytes and of each token four, twice.
    CHECK(host.current() == Bytes{2 * (64 * 40 + 4 * 1000)});
    CHECK(host.current() == *TestTable::pinned_for({.rows = 64, .vocabulary = logits.width, .history = 1000}));
    auto sent = bench.send(logits.values);
    auto ids = bench.send(std::vector<std::int32_t>(rows.size(), -7));
    TensorView<float const, 2, TestDevice> const view = logits.view(sent);
    REQUIRE(table->write(rows, bench.stream()));
    REQUIRE(sample(view, *table, ids.view(), bench.stream()));
    CHECK(bench.fetch(ids) == sample_here(logits, rows));
}

/// Rows with each of some options, drawn at steps of their own.
std::vector<SamplingRow> rows_of(std::vector<SamplingOptions> const& options) {
    std::vector<SamplingRow> rows;
    for (auto const& own : options) {
        rows.push_back({own, {}, rows.size() % 3, 100 + rows.size()});
        rows.back().options.seed = 17 + rows.size();
    }
    return rows;
}

std::vector<SamplingOptions> const some_options{
    {},
    {.temperature = 1.0F},
    {.temperature = 0.7F, .top_k = 1},
    {.temperature = 0.7F, .top_k = 20},
    {.temperature = 1.3F, .top_k = 300},
    {.temperature = 1.0F, .top_p = 0.9F},
    {.temperature = 2.0F, .top_p = 0.5F},
    {.temperature = 1.0F, .top_p = 0.0F},
    {.temperature = 0.8F, .top_k = 40, .top_p = 0.95F, .min_p = 0.05F},
    {.temperature = 1.5F, .min_p = 0.1F},
    {.temperature = 1e-3F},
    {.temperature = 1e-42F, .top_p = 0.7F},
    {.temperature = 3e38F, .top_k = 5},
};

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE("sample on a device draws the host's tokens, for every option and the shapes that a kernel has paths for") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    auto const rows = rows_of(some_options);
    auto const count = std::ssize(rows);
    struct Shape {
        std::int64_t width;
        std::int64_t gap;
        std::int64_t shift;
        float size;
    };
    for (auto const& [width, gap, shift, size] :
         {Shape{1, 0, 0, 1.0F}, Shape{515, 2, 0, 4.0F}, Shape{5000, 0, 0, 8.0F}, Shape{4100, 0, 1, 40.0F}}) {
        TestRows<float> const logits(count, width, width + gap, shift, 501, size);
        check_sampled_rows(*bench, logits, rows);
    }
}

TEST_CASE("sample on a device: of equal logits the lower token precedes, wherever a row is cut") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    std::vector<SamplingOptions> options;
    for (float const share : {0.001F, 0.3F, 0.55F, 0.8F, 0.99F})
        options.push_back({.temperature = 1.0F, .top_p = share});
    for (std::int64_t const count : {1, 7, 2000}) options.push_back({.temperature = 0.5F, .top_k = count});
    options.push_back({.temperature = 0.5F, .top_k = 900, .top_p = 0.6F});
    auto const rows = rows_of(options);
    // A few values only, zeros of both signs among them, and all the same.
    for (float const step : {1.0F, 100.0F}) {
        TestRows<float> logits(std::ssize(rows), 4500, 4500, 0, 502, 3.0F);
        for (auto& value : logits.values) value = std::round(value / step);
        check_sampled_rows(*bench, logits, rows);
    }
}

TEST_CASE("sample on a device penalises the tokens of a history once, whatever their logits' signs") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    std::vector<std::vector<std::int32_t>> histories{{0, 5, 5, 5, 31, 32, 999}, {}, {7}};
    for (std::int32_t i = 0; i < 700; ++i) histories.back().push_back(i);
    auto rows = rows_of({{.repetition_penalty = 1.7F},
                         {.temperature = 1.0F, .repetition_penalty = 1.7F},
                         {.temperature = 1.0F, .top_k = 30, .repetition_penalty = 0.4F},
                         {.temperature = 1.0F, .top_p = 0.9F, .repetition_penalty = 1.0F}});
    rows[0].history = histories[0];
    rows[1].history = histories[1];
    rows[2].history = histories[0];
    rows[3].history = histories[2];
    for (std::int64_t const shift : {0, 1}) {
        TestRows<float> const logits(4, 1000, 1000, shift, 503, 5.0F);
        check_sampled_rows(*bench, logits, rows);
        auto with_long = rows;
        with_long[2].history = histories[2];
        check_sampled_rows(*bench, logits, with_long);
    }
}

TEST_CASE("sample on a device: a row that the host refuses has the token -1, extreme logits have the host's") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    constexpr auto greatest = std::numeric_limits<float>::max();
    auto const rows = rows_of({{},
                               {.temperature = 1.0F},
                               {.temperature = 1.0F, .top_k = 3},
                               {.temperature = 1.0F, .top_p = 0.9F},
                               {.temperature = 0.5F},
                               {.temperature = 0.5F, .top_k = 2, .top_p = 0.5F},
                               {.temperature = 1.0F, .top_k = 600, .top_p = 0.9F}});
    TestRows<float> logits(std::ssize(rows), 600, 600, 0, 504, 3.0F);
    logits.set(0, 599, std::nanf(""));
    logits.set(1, 3, infinity);
    for (std::int64_t i = 0; i < 600; ++i) {
        logits.set(2, i, i % 100 == 7 ? 1.0F : -infinity);
        logits.set(3, i, -infinity);
        logits.set(4, i, i % 2 == 0 ? greatest : -greatest);
        logits.set(5, i, i % 3 == 0 ? greatest : -greatest);
    }
    check_sampled_rows(*bench, logits, rows);
}

TEST_CASE("sample on a device refuses what does not fit its table, and options that the host refuses") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    auto& stream = bench->stream();
    MemoryCounter host;
    CHECK(TestTable::create(bench->context(), host, {.rows = 0}).error().place() == "rows");
    CHECK(TestTable::create(bench->context(), host, {.vocabulary = 0}).error().place() == "vocabulary");
    CHECK(TestTable::create(bench->context(), host, {.history = -1}).error().place() == "history");
    auto table = TestTable::create(bench->context(), host, {.rows = 2, .vocabulary = 8, .history = 3});
    REQUIRE(table);
    std::vector<std::int32_t> const history{1, 2, 3, 4};
    auto const place = [&](std::vector<SamplingRow> const& rows) {
        auto const done = table->write(rows, stream);
        REQUIRE_FALSE(done);
        return std::string(done.error().place());
    };
    CHECK(place(std::vector<SamplingRow>(3)) == "rows");
    CHECK(place({{{.repetition_penalty = 2.0F}, history}}) == "history");
    CHECK(place({{{.top_p = 2.0F}}}) == "top_p");
    // Without a penalty nothing of a history is sent.
    REQUIRE(table->write(std::vector<SamplingRow>{{{}, history}, {}}, stream));
    auto logits = bench->send(numbers(32, 505));
    auto ids = bench->send(std::vector<std::int32_t>(2));
    auto const refused = [&](std::int64_t rows, std::int64_t width) {
        auto const done =
            sample(TensorView<float const, 2, TestDevice>(logits.data(), {rows, width}), *table, ids.view(), stream);
        REQUIRE_FALSE(done);
        return done.error().code() == ErrorCode::shape_mismatch;
    };
    CHECK(refused(1, 8));
    CHECK(refused(2, 7));
    CHECK(refused(2, 0));
}

TEST_SUITE_END();
