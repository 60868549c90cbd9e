// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/quant/half_types.hpp>

#include <doctest/doctest.h>

#include "bf16_problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace shardwise;

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace {

using test::add;
using test::Floats;
using test::multiply_add;
using test::Problem;

/// The sums in their documented order: 256 pairs after another, each the odd input's product before the even one's.
Floats expected(Problem const& problem) {
    Floats out;
    auto const inputs = problem.range.size();
    for (std::int64_t row = 0; row < problem.rows; ++row) {
        for (std::int64_t output = 0; output < problem.outputs; ++output) {
            auto const product = [&](std::int64_t k, float sum) {
                if (k >= inputs) return sum;
                auto const value = problem.in[static_cast<std::size_t>(row * inputs + k)];
                auto const place = output * problem.inputs + problem.range.begin + k;
                return multiply_add(from_bf16(to_bf16(value)),
                                    static_cast<float>(problem.weight[static_cast<std::size_t>(place)]), sum);
            };
            float total = 0.0F;
            for (std::int64_t begin = 0; begin < inputs; begin += 512) {
                float sum = 0.0F;
                for (auto k = begin; k < std::min(begin + 512, inputs); k += 2) sum = product(k, product(k + 1, sum));
                // Sums are added by an operation that knows numbers below 2^-126.
                total = begin == 0 ? sum : total + sum;
            }
            out.push_back(total);
        }
    }
    return out;
}

void check(Problem const& problem) {
    HostContext context({.threads = 1});
    CAPTURE(problem.rows);
    CAPTURE(problem.outputs);
    CAPTURE(problem.range.begin);
    CAPTURE(problem.range.end);
    auto const right = expected(problem);
    auto const made = test::product(detail::avx512_bf16::rounded_kernel, context, problem);
    CHECK(std::memcmp(made.data(), right.data(), right.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE("avx512_bf16: products by activations of bf16 have the bits of the documented order") {
    if (!has_isa(IsaLevel::avx512_bf16)) return;
    std::mt19937 random(32);
    // Every number of rows of a tile, streamed and copied.
    for (std::int64_t const rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 22, 23, 24, 37}) {
        for (std::int64_t const outputs : {1, 37}) check({rows, outputs, 45, {0, 45}, random});
    }
    // One row by two panels side by side, by sums side by side, and what is left of them.
    for (std::int64_t const inputs : {511, 512, 513, 1024, 2047, 2050, 2600}) {
        for (std::int64_t const rows : {1, 3, 19}) check({rows, 33, inputs, {0, inputs}, random});
    }
    // Ranges that begin or end within a pair, whose other half is not a number.
    for (UnitRange const range :
         {UnitRange{0, 1}, {0, 31}, {0, 33}, {1, 2}, {1, 3}, {3, 98}, {2, 64}, {5, 101}, {4, 101}})
        check({3, 20, 101, range, random});
    for (std::int64_t const rows : {1, 20}) check({rows, 20, 1400, {3, 1302}, random});
    // Products and sums that the processor takes for zero.
    check({17, 16, 64, {0, 64}, random, 70});
}

TEST_CASE("avx512_bf16: activations are rounded to even, and zeros fill the last register") {
    if (!has_isa(IsaLevel::avx512_bf16)) return;
    auto const infinity = std::numeric_limits<float>::infinity();
    Floats values{0.0F,     -0.0F,     1.0F,        1.0F / 3.0F, -std::numeric_limits<float>::max(),
                  infinity, -infinity, 1.00390625F, 1.01171875F};
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    while (values.size() < 45) values.push_back(normal(random));
    std::vector<std::uint16_t> prepared(64, 7);
    REQUIRE(detail::avx512_bf16::prepared_bytes(45) == 128);
    detail::avx512_bf16::prepare_rounded(values.data(), 45, reinterpret_cast<std::byte*>(prepared.data()));
    for (std::size_t i = 0; i < 64; ++i) {
        CAPTURE(i);
        CHECK(prepared[i] == (i < values.size() ? to_bf16(values[i]) : 0));
    }
    auto const nan = std::nanf("");
    detail::avx512_bf16::prepare_rounded(&nan, 1, reinterpret_cast<std::byte*>(prepared.data()));
    CHECK(std::isnan(from_bf16(prepared[0])));
}

#endif
