// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/quant/half_types.hpp>

#include <doctest/doctest.h>

#include "bf16_tiles.hpp"
#include "gemm_factor.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace shardwise;

namespace {

using test::Factor;
using test::levels;

struct Extents {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
};

/// Random numbers at any place.
auto value(std::mt19937& random) {
    return [&random](std::int64_t, std::int64_t) { return std::normal_distribution<float>()(random); };
}

/// out = op(a) * op(b) of random numbers, all kept or transposed, or added to what was there.
struct Problem {
    Extents extents;
    GemmOptions options;
    Factor<float> a;
    Factor<float> b;
    std::vector<float> before;

    Problem(Extents of, int choice, std::mt19937& random)
        : extents(of),
          options{(choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0, true},
          a(of.m, of.k, options.is_a_transposed, value(random)),
          b(of.k, of.n, options.is_b_transposed, value(random)) {
        auto const next = value(random);
        for (std::int64_t i = 0; i < of.m * of.n; ++i) before.push_back(next(0, 0));
    }
    [[nodiscard]] std::vector<float> product(IsaLevel level, int threads, GemmOptions how) const {
        HostContext context({.threads = threads, .is_pinned = false, .streams = StreamMode::immediate, .isa = level});
        auto stream = context.make_stream();
        auto out = before;
        REQUIRE(Host::gemm<float>(a.view(), b.view(), {out.data(), {extents.m, extents.n}}, how, stream));
        return out;
    }
    /// As tiles of bf16 sum, a step of 32 inputs after the other.
    [[nodiscard]] std::vector<float> by_steps() const {
        auto out = before;
        for (std::int64_t row = 0; row < extents.m; ++row) {
            for (std::int64_t column = 0; column < extents.n; ++column) {
                auto& sum = out[static_cast<std::size_t>(row * extents.n + column)];
                if (!options.accumulates) sum = 0.0F;
                for (std::int64_t begin = 0; begin < extents.k; begin += 32) {
                    float even = 0.0F;
                    float odd = 0.0F;
                    for (auto i = begin; i < std::min(begin + 32, extents.k); ++i) {
                        auto& part = i % 2 == 0 ? even : odd;
                        part = test::multiply_add(rounded(a, row, i), rounded(b, i, column), part);
                    }
                    sum = test::add(sum, test::add(even, odd));
                }
            }
        }
        return out;
    }

private:
    static float rounded(Factor<float> const& factor, std::int64_t row, std::int64_t column) {
        return from_bf16(to_bf16(static_cast<float>(factor.at(row, column))));
    }
};

/// A factor whose elements are rounded beforehand.
Factor<float> rounded(Factor<float> factor) {
    for (auto& value : factor.values) value = from_bf16(to_bf16(value));
    return factor;
}

bool is_same(std::vector<float> const& first, std::vector<float> const& second) {
    return first.size() == second.size() && std::memcmp(first.data(), second.data(), first.size() * sizeof(float)) == 0;
}

/// Tiles of 16 and 32 rows, panels of 16 columns, steps of 32 inputs, and what is packed at a time.
constexpr Extents extents[] = {{1, 1, 1},     {3, 4, 0},     {2, 17, 31},  {5, 15, 33},  {16, 33, 64},
                               {33, 100, 70}, {150, 20, 37}, {7, 530, 35}, {4, 18, 1030}};

}  // namespace

TEST_CASE("gemm: factors rounded to bf16 at levels without a unit for it have the bits of those rounded beforehand") {
    std::mt19937 random(7);
    for (auto const level : levels()) {
        if (level == IsaLevel::amx) continue;
        CAPTURE(std::string(name_of(level)));
        for (auto const& of : extents) {
            for (int choice = 0; choice < 8; ++choice) {
                Problem problem(of, choice, random);
                auto const out = problem.product(level, 2, problem.options);
                problem.a = rounded(std::move(problem.a));
                problem.b = rounded(std::move(problem.b));
                auto plain = problem.options;
                plain.rounds_to_bf16 = false;
                CHECK(is_same(out, problem.product(level, 1, plain)));
            }
        }
    }
}

TEST_CASE("gemm: tiles of bf16 give the bits of the documented order, transposed or not, on any threads") {
    if (!has_isa(IsaLevel::amx)) return;
    std::mt19937 random(8);
    for (auto const& of : extents) {
        for (int choice = 0; choice < 8; ++choice) {
            CAPTURE(of.m);
            CAPTURE(of.n);
            CAPTURE(of.k);
            CAPTURE(choice);
            Problem const problem(of, choice, random);
            auto const right = problem.by_steps();
            for (int const threads : {1, 2, 5})
                CHECK(is_same(problem.product(IsaLevel::amx, threads, problem.options), right));
        }
    }
}

#if defined(SHARDWISE_HAS_X86_LEVELS)

TEST_CASE(
    "gemm: emulated tiles of bf16 give the bits of the documented order, whatever rows and panels are made together") {
    // What packs factors.
    if (!has_isa(IsaLevel::avx512_bf16)) return;
    test::Bf16Tiles::faults = 0;
    test::Bf16Tiles::products = 0;
    std::mt19937 random(9);
    for (auto const& of : extents) {
        for (int choice = 0; choice < 8; ++choice) {
            CAPTURE(of.m);
            CAPTURE(of.n);
            CAPTURE(of.k);
            CAPTURE(choice);
            Problem const problem(of, choice, random);
            auto out = problem.before;
            auto const kernels = detail::gemm_kernels(IsaLevel::portable);
            detail::GemmTask const task{
                .a = detail::gemm_factor(problem.a.view(), problem.options.is_a_transposed, true, kernels),
                .b = detail::gemm_factor(problem.b.view(), problem.options.is_b_transposed, true, kernels),
                .m = of.m,
                .n = of.n,
                .k = of.k,
                .out = out.data(),
                .out_stride = of.n,
                .accumulates = problem.options.accumulates};
            auto const panels = ceil_divide(of.n, detail::panel_outputs);
            auto const multiply = detail::amx::run_rounded_gemm<test::Bf16Tiles>;
            multiply(task, 0, of.m / 3, 0, panels);
            multiply(task, of.m / 3, of.m, 0, panels / 2);
            multiply(task, of.m / 3, of.m, panels / 2, panels);
            CHECK(is_same(out, problem.by_steps()));
        }
    }
    CHECK(test::Bf16Tiles::faults == 0);
    CHECK(test::Bf16Tiles::products > 0);
}

#endif
