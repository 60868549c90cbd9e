// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/quant/half_types.hpp>

#include <doctest/doctest.h>

#include "bf16_problem.hpp"
#include "bf16_tiles.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

using namespace shardwise;

#if defined(SHARDWISE_HAS_X86_LEVELS)

namespace {

using test::add;
using test::Bf16Tiles;
using test::Floats;
using test::multiply_add;
using test::Problem;
using test::product;

/// The first eight bits of a number, and what is left.
float take_bits(float& value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits &= 0xffff0000U;
    float first;
    std::memcpy(&first, &bits, 4);
    value -= first;
    return first;
}

/// The sums of a kernel in their documented order: of three pieces or of rounded activations.
Floats expected(Problem const& problem, int pieces) {
    Floats out;
    for (std::int64_t row = 0; row < problem.rows; ++row) {
        for (std::int64_t output = 0; output < problem.outputs; ++output) {
            float sum = 0.0F;
            for (std::int64_t begin = 0; begin < problem.range.size(); begin += 32) {
                float even[3] = {};
                float odd[3] = {};
                for (auto k = begin; k < std::min(begin + 32, problem.range.size()); ++k) {
                    auto const weight = static_cast<float>(
                        problem.weight[static_cast<std::size_t>(output * problem.inputs + problem.range.begin + k)]);
                    auto left = problem.in[static_cast<std::size_t>(row * problem.range.size() + k)];
                    for (int piece = 0; piece < pieces; ++piece) {
                        auto& part = (k % 2 == 0 ? even : odd)[piece];
                        part = multiply_add(pieces == 1 ? from_bf16(to_bf16(left)) : take_bits(left), weight, part);
                    }
                }
                for (int piece = 0; piece < pieces; ++piece) sum = add(sum, add(even[piece], odd[piece]));
            }
            out.push_back(sum);
        }
    }
    return out;
}

void check_kernel(detail::ProductKernel const& kernel, int pieces) {
    std::mt19937 random(31);
    HostContext context({.threads = 1});
    auto const check = [&](Problem const& problem) {
        CAPTURE(problem.rows);
        CAPTURE(problem.outputs);
        CAPTURE(problem.range.begin);
        CAPTURE(problem.range.end);
        auto const right = expected(problem, pieces);
        CHECK(std::memcmp(product(kernel, context, problem).data(), right.data(), right.size() * sizeof(float)) == 0);
    };
    // Each number of tiles, and of panels, and what is left of them.
    for (std::int64_t const rows : {1, 2, 15, 16, 17, 32, 33, 70}) {
        for (std::int64_t const outputs : {1, 37}) check({rows, outputs, 45, {0, 45}, random});
    }
    // Steps that are cut, ranges that begin within a pair.
    for (UnitRange const range : {UnitRange{0, 1}, {0, 31}, {0, 33}, {1, 2}, {1, 3}, {3, 98}, {2, 64}, {5, 101}})
        check({3, 20, 101, range, random});
    // More steps and panels than are worked on together.
    auto const inputs = detail::amx::step_inputs * (pieces == 1 ? 130 : 66) - 3;
    check({33, 3, inputs, {0, inputs}, random});
    check({33, (pieces == 1 ? 11 : 27) * detail::panel_outputs + 5, 7, {0, 7}, random});
    // Products and sums that tiles take for zero.
    check({17, 16, 64, {0, 64}, random, 70});
}

}  // namespace

TEST_CASE("amx: emulated tiles of bf16 give the bits of the documented order, in shapes that processors take") {
    // What is around the tiles.
    if (!has_isa(IsaLevel::avx512_bf16)) return;
    Bf16Tiles::faults = 0;
    Bf16Tiles::products = 0;
    check_kernel(detail::amx::full_bf16_kernel<Bf16Tiles>, 3);
    check_kernel(detail::amx::rounded_bf16_kernel<Bf16Tiles>, 1);
    CHECK(Bf16Tiles::faults == 0);
    CHECK(Bf16Tiles::products > 0);
}

TEST_CASE("amx: products by the processor's tiles of bf16 have the bits of the documented order") {
    if (!has_isa(IsaLevel::amx)) return;
    check_kernel(detail::amx::full_bf16_kernel<>, 3);
    check_kernel(detail::amx::rounded_bf16_kernel<>, 1);
}

TEST_CASE("amx: an activation is the sum of three bf16; what is infinite or not a number stays so") {
    if (!has_isa(IsaLevel::avx512_bf16)) return;
    auto const infinity = std::numeric_limits<float>::infinity();
    auto const largest = std::numeric_limits<float>::max();
    float signalling;
    std::uint32_t const bits = 0x7f800001U;
    std::memcpy(&signalling, &bits, 4);
    std::vector<float> values{0.0F,        -0.0F,    1.0F,      1.0F / 3.0F,   -largest,
                              16777215.0F, infinity, -infinity, std::nanf(""), signalling};
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    while (values.size() < 45) values.push_back(normal(random));
    auto const inputs = static_cast<std::int64_t>(values.size());
    std::vector<std::uint16_t> prepared(2 * 3 * 32, 7);
    REQUIRE(detail::amx::prepared_bytes<3>(inputs) == static_cast<std::int64_t>(prepared.size() * 2));
    detail::amx::prepare_full(values.data(), inputs, reinterpret_cast<std::byte*>(prepared.data()));
    for (std::size_t i = 0; i < 64; ++i) {
        auto const piece = [&](std::size_t index) { return from_bf16(prepared[(i / 32 * 3 + index) * 32 + i % 32]); };
        auto const value = i < values.size() ? values[i] : 0.0F;
        CAPTURE(i);
        if (std::isnan(value)) {
            CHECK(std::isnan(piece(0)));
        } else {
            CHECK(piece(0) + (piece(1) + piece(2)) == value);
            CHECK(std::signbit(piece(0)) == std::signbit(value));
        }
    }
}

#endif
