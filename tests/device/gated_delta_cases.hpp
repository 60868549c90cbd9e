// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/gated_delta.hpp>
#include <shardwise/kernels/xielu.hpp>

#include "test_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

/// Rows and weights of a gated delta rule.
struct TestDelta {
    DeltaShape shape;
    std::int64_t tokens;
    std::vector<float> in = numbers(tokens * in_width(), 601);
    std::vector<float> ba = numbers(tokens * ba_width(), 602);
    std::vector<float> convolution = numbers(shape.key_heads * shape.channels() * shape.kernel, 603);
    std::vector<float> dt_bias = numbers(shape.value_heads, 604);
    std::vector<float> decay = numbers(shape.value_heads, 605);
    std::vector<float> norm = numbers(shape.value_dim, 606);

    TestDelta(DeltaShape const& of, std::int64_t count) : shape(of), tokens(count) {
        for (auto& value : decay) value = -std::abs(value);
        for (auto& value : in) value *= 2.0F;
        for (auto& value : ba) value *= 4.0F;
    }
    [[nodiscard]] std::int64_t in_width() const { return shape.key_heads * (shape.channels() + shape.value_columns()); }
    [[nodiscard]] std::int64_t ba_width() const { return 2 * shape.value_heads; }
    [[nodiscard]] std::int64_t out_width() const { return shape.value_heads * shape.value_dim; }
};

struct RanDelta {
    std::vector<float> out;
    std::vector<float> state;
};

/// In pieces of so many tokens; what the state held before is another sequence's.
template <class B>
RanDelta run_delta(Bench<B>& bench, TestDelta const& test, std::int64_t piece) {
    auto const& shape = test.shape;
    auto const heads = shape.key_heads;
    auto const in = bench.send(test.in);
    auto const ba = bench.send(test.ba);
    auto const convolution = bench.send(test.convolution);
    auto const dt_bias = bench.send(test.dt_bias);
    auto const decay = bench.send(test.decay);
    auto const norm = bench.send(test.norm);
    DeltaWeights<B> const weights{convolution.view(), dt_bias.view(), decay.view(), norm.view(), 1e-5F};
    auto state = bench.send(std::vector<float>(static_cast<std::size_t>(shape.state_elements(heads)), 7.0F));
    auto const room = gated_delta_workspace<B>(shape, heads, std::min(piece, test.tokens));
    auto workspace = bench.send(std::vector<float>(static_cast<std::size_t>(room), 7.0F));
    auto out = bench.send(std::vector<float>(static_cast<std::size_t>(test.tokens * test.out_width()), 7.0F));
    for (std::int64_t first = 0; first < test.tokens; first += piece) {
        auto const count = std::min(piece, test.tokens - first);
        REQUIRE(gated_delta(
            TensorView<float const, 2, B>(in.data() + first * test.in_width(), {count, test.in_width()}),
            TensorView<float const, 2, B>(ba.data() + first * test.ba_width(), {count, test.ba_width()}), shape,
            weights, first == 0, state.view(), workspace.view(),
            TensorView<float, 2, B>(out.data() + first * test.out_width(), {count, test.out_width()}), bench.stream()));
    }
    return {bench.fetch(out), bench.fetch(state)};
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("gated_delta makes what the host makes, and the same bits in pieces of tokens", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    Bench<Host> host(*open_context<Host>());
    for (auto const& of :
         {std::pair{DeltaShape{.key_heads = 2, .value_heads = 6, .key_dim = 5, .value_dim = 4, .kernel = 4}, 11},
          std::pair{DeltaShape{.key_heads = 1, .value_heads = 2, .key_dim = 40, .value_dim = 70, .kernel = 4}, 3},
          std::pair{DeltaShape{.key_heads = 2, .value_heads = 2, .key_dim = 256, .value_dim = 33, .kernel = 1}, 2}}) {
        auto const& shape = of.first;
        auto const tokens = of.second;
        CAPTURE(shape.key_dim);
        TestDelta const test(shape, tokens);
        auto const expected = run_delta(host, test, tokens);
        auto const whole = run_delta(*bench, test, tokens);
        auto const close = [](std::vector<float> const& made, std::vector<float> const& wanted) {
            // Rows are divided by their lengths, so that each is about 1: chains of 40 additions and a dozen roundings, a token
            // after another.
            return std::equal(made.begin(), made.end(), wanted.begin(), wanted.end(),
                              [](float a, float b) { return std::abs(a - b) <= 1e-5F * std::max(1.0F, std::abs(b)); });
        };
        CHECK(close(whole.out, expected.out));
        CHECK(close(whole.state, expected.state));
        for (std::int64_t const piece : {1, 2}) {
            auto const pieces = run_delta(*bench, test, piece);
            CHECK(pieces.out == whole.out);
            CHECK(pieces.state == whole.state);
        }
    }
    if constexpr (!std::is_same_v<B, Host>) {
        TestDelta const wide({.key_heads = 1, .value_heads = 1, .key_dim = 257, .value_dim = 1, .kernel = 1}, 1);
        auto memory = bench->send(std::vector<float>(4096));
        auto const matrix = [&](std::int64_t width) { return TensorView<float, 2, B>(memory.data(), {1, width}); };
        auto const refused =
            gated_delta(TensorView<float const, 2, B>(matrix(wide.in_width())),
                        TensorView<float const, 2, B>(matrix(2)), wide.shape, {}, true,
                        memory.view().part(0, wide.shape.state_elements(1)), memory.view(), matrix(1), bench->stream());
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == ErrorCode::unsupported);
    }
}

TEST_CASE_TEMPLATE("xielu is the formula in float64, also in place", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    std::vector<float> const stored{0.8F, 0.7F, 0.5F, -1e-6F, 0.0F};
    auto const four = bench->send(stored);
    TensorView<float const, 1, B> const learned(four.data(), {4});
    for (auto const& shape : row_shapes) {
        TestRows<float> in(shape.rows, shape.width, shape.stride, shape.shift, 611, 6.0F);
        if (shape.width > 8 && shape.rows > 0) {
            in.set(0, 0, -100.0F);
            in.set(0, 1, -0.0F);
            in.set(0, 2, -1e-7F);
            in.set(0, 3, std::nanf(""));
            in.set(0, 4, -0.3466F);
        }
        for (bool const in_place : {false, true}) {
            auto from = bench->send(in.values);
            auto other = bench->send(in.values);
            auto& to = in_place ? from : other;
            REQUIRE(xielu(TensorView<float const, 2, B>(in.view(from)), learned, in.view(to), bench->stream()));
            auto const out = in.fetched(*bench, to);
            for (std::int64_t row = 0; row < shape.rows; ++row) {
                for (std::int64_t i = 0; i < shape.width; ++i) {
                    auto const x = in.at(row, i);
                    auto const beta = 0.5 * x;
                    auto const grown = std::expm1(std::min(x, static_cast<double>(stored[3])));
                    auto const other_part =
                        x > 0.0 ? static_cast<double>(stored[0]) * x * x : (grown - x) * static_cast<double>(stored[1]);
                    // The difference from x has the roundings of what it is made of.
                    auto const bound =
                        (std::abs(grown) * 6 + std::abs(x) * 4 + std::abs(other_part) * 4 + std::abs(beta) * 2) *
                        0x1p-24;
                    if (std::isnan(x)) {
                        REQUIRE(std::isnan(out.at(row, i)));
                    } else {
                        REQUIRE(std::abs(out.at(row, i) - (other_part + beta)) <= bound);
                    }
                }
            }
        }
    }
    auto memory = bench->send(std::vector<float>(16));
    auto const refused = xielu(TensorView<float const, 2, B>(memory.matrix(4, 4)),
                               TensorView<float const, 1, B>(four.view()), memory.matrix(4, 4), bench->stream());
    REQUIRE_FALSE(refused);
    CHECK(refused.error().place() == "numbers");
}

TEST_SUITE_END();
