// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>

#include <doctest/doctest.h>

#include "gemm_factor.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

using namespace shardwise;

namespace {

using test::Factor;
using test::integer_at;
using test::levels;

/// The extents at which something changes: tiles of 12 rows, panels of 16 columns, blocks of 16 panels and of 256 inputs.
struct Extents {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
};
constexpr Extents extents[] = {{0, 3, 4},  {3, 0, 4},    {3, 4, 0},    {1, 1, 1},    {2, 17, 31},  {5, 15, 3},
                               {7, 33, 5}, {13, 100, 9}, {25, 31, 70}, {3, 20, 260}, {14, 300, 11}};

template <class T>
void check_exact(IsaLevel level) {
    HostContext context({.threads = 2, .is_pinned = false, .streams = StreamMode::immediate, .isa = level});
    auto stream = context.make_stream();
    for (auto const& extent : extents) {
        auto const m = extent.m;
        auto const n = extent.n;
        auto const k = extent.k;
        for (int choice = 0; choice < 8; ++choice) {
            GemmOptions const options{(choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0};
            Factor<T> const a(m, k, options.is_a_transposed, integer_at);
            Factor<T> const b(k, n, options.is_b_transposed,
                              [](auto row, auto column) { return integer_at(column, row); });
            auto const stride = n + 3;
            std::vector<float> out(static_cast<std::size_t>(m * stride), 5.0F);
            REQUIRE(Host::gemm<T>(a.view(), b.view(), {out.data(), {m, n}, stride}, options, stream));
            bool is_exact = true;
            for (std::int64_t row = 0; row < m; ++row) {
                for (std::int64_t column = 0; column < stride; ++column) {
                    double expected = options.accumulates || column >= n ? 5.0 : 0.0;
                    for (std::int64_t i = 0; i < k && column < n; ++i) expected += a.at(row, i) * b.at(i, column);
                    is_exact = is_exact &&
                               static_cast<double>(out[static_cast<std::size_t>(row * stride + column)]) == expected;
                }
            }
            CHECK_MESSAGE(is_exact, name_of(level), " ", m, " x ", n, " x ", k, " choice ", choice);
        }
    }
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
}

}  // namespace

TEST_CASE("gemm: integers come out exactly at every level, transposed or not, added to what was there or not") {
    for (auto const level : levels()) {
        check_exact<float>(level);
        check_exact<Bfloat16>(level);
        check_exact<Float16>(level);
    }
}

TEST_CASE("gemm: the error stays within the bound of a sum of its length") {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    constexpr std::int64_t m = 9;
    constexpr std::int64_t n = 35;
    constexpr std::int64_t k = 600;
    auto const any = [&](auto, auto) { return normal(random); };
    Factor<float> const a(m, k, true, any);
    Factor<float> const b(k, n, false, any);
    for (auto const level : levels()) {
        HostContext context({.threads = 2, .is_pinned = false, .streams = StreamMode::immediate, .isa = level});
        auto stream = context.make_stream();
        std::vector<float> out(static_cast<std::size_t>(m * n));
        REQUIRE(Host::gemm<float>(a.view(), b.view(), {out.data(), {m, n}}, {.is_a_transposed = true}, stream));
        double worst = 0.0;
        for (std::int64_t row = 0; row < m; ++row) {
            for (std::int64_t column = 0; column < n; ++column) {
                double sum = 0.0;
                double magnitude = 0.0;
                for (std::int64_t i = 0; i < k; ++i) {
                    sum += a.at(row, i) * b.at(i, column);
                    magnitude += std::abs(a.at(row, i) * b.at(i, column));
                }
                auto const error = std::abs(static_cast<double>(out[static_cast<std::size_t>(row * n + column)]) - sum);
                worst = std::max(worst, error / magnitude);
            }
        }
        // 256 products in a row (a rounding each for the product and the sum), then three sums of blocks.
        auto const unit = static_cast<double>(std::numeric_limits<float>::epsilon()) / 2;
        CHECK(worst < (256 + 1 + 3) * unit);
        CHECK(worst > 0.0);
    }
}

TEST_CASE("gemm: transposed or not, with any rows, the bits are those of the product by a held weight") {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    constexpr std::int64_t n = 595;
    constexpr std::int64_t k = 530;
    auto const transposed = [](std::vector<float> const& from, std::int64_t rows, std::int64_t columns) {
        std::vector<float> to(from.size());
        for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t i = 0; i < columns; ++i)
                to[static_cast<std::size_t>(i * rows + row)] = from[static_cast<std::size_t>(row * columns + i)];
        return to;
    };
    // The last takes all panels in one part, in blocks, and its rows in groups.
    for (std::int64_t const m : {1, 5, 29, 131}) {
        std::vector<float> in(static_cast<std::size_t>(m * k)), weight(static_cast<std::size_t>(n * k));
        for (auto& value : in) value = normal(random);
        for (auto& value : weight) value = normal(random);
        auto const in_columns = transposed(in, m, k);
        auto const weight_columns = transposed(weight, n, k);
        for (auto const level : levels()) {
            CAPTURE(name_of(level));
            CAPTURE(m);
            HostContext context(
                {.threads = m > 100 ? 1 : 2, .is_pinned = false, .streams = StreamMode::immediate, .isa = level});
            auto stream = context.make_stream();
            auto const held = Host::hold_weight(
                context, {WeightFormat::f32, n, k, std::as_bytes(std::span<float const>(weight)), {}, 0, false});
            REQUIRE(held);
            std::vector<float> expected(static_cast<std::size_t>(m * n));
            REQUIRE(Host::multiply({in.data(), {m, k}}, *held, {expected.data(), {m, n}}, stream));
            for (int choice = 0; choice < 4; ++choice) {
                GemmOptions const options{(choice & 1) != 0, (choice & 2) != 0};
                using View = TensorView<float const, 2, Host>;
                auto const a = options.is_a_transposed ? View(in_columns.data(), {k, m}) : View(in.data(), {m, k});
                auto const b =
                    options.is_b_transposed ? View(weight.data(), {n, k}) : View(weight_columns.data(), {k, n});
                std::vector<float> out(expected.size());
                REQUIRE(Host::gemm<float>(a, b, {out.data(), {m, n}}, options, stream));
                CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0);
            }
        }
    }
}

TEST_CASE("gemm: extents that do not agree are named") {
    HostContext context({.threads = 1, .is_pinned = false, .streams = StreamMode::immediate, .isa = {}});
    auto stream = context.make_stream();
    std::vector<float> values(64);
    auto const matrix = [&](std::int64_t rows, std::int64_t columns) {
        return TensorView<float, 2, Host>(values.data(), {rows, columns});
    };
    auto const inner = Host::gemm<float>(matrix(2, 3), matrix(4, 5), matrix(2, 5), {}, stream);
    REQUIRE_FALSE(inner);
    CHECK(inner.error().code() == ErrorCode::shape_mismatch);
    CHECK(inner.error().message() == "gemm: the factors' inner extents differ (got 4, expected 3)");
    auto const rows = Host::gemm<float>(matrix(2, 3), matrix(3, 5), matrix(3, 5), {}, stream);
    REQUIRE_FALSE(rows);
    CHECK(rows.error().message() ==
          "gemm: the result has another number of rows than the first factor (got 3, expected 2)");
    auto const columns = Host::gemm<float>(matrix(2, 3), matrix(5, 3), matrix(2, 3), {.is_b_transposed = true}, stream);
    REQUIRE_FALSE(columns);
    CHECK(columns.error().message() ==
          "gemm: the result has another number of columns than the second factor (got 3, expected 5)");
}

TEST_CASE("gemm: without an instruction set there is no product, and the stream's reason is passed on") {
    HostStream stream(StreamMode::immediate, nullptr, choose_isa("avx3"));
    float value = 0.0F;
    auto const result = Host::gemm<float>({&value, {1, 1}}, {&value, {1, 1}}, {&value, {1, 1}}, {}, stream);
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == ErrorCode::invalid_argument);
}
