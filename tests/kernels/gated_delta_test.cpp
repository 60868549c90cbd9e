// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/gated_delta.hpp>
#include <shardwise/kernels/step_table.hpp>

#include <doctest/doctest.h>

#include "row_matrices.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr DeltaShape shape{.key_heads = 2, .value_heads = 6, .key_dim = 5, .value_dim = 4, .kernel = 4};

/// What the kernel multiplies with.
struct Weights {
    Matrix<float> convolution = random_matrix<float>(1, 2 * shape.channels() * shape.kernel, 1, 1.0F);
    Matrix<float> dt_bias = random_matrix<float>(1, 6, 2, 1.0F);
    Matrix<float> decay = random_matrix<float>(1, 6, 3, 1.0F);
    Matrix<float> norm = random_matrix<float>(1, 4, 4, 1.0F);

    Weights() {
        for (auto& value : decay.values) value = -std::abs(value);
    }
    [[nodiscard]] DeltaWeights<Host> view() const {
        auto const row = [](Matrix<float> const& of) {
            return TensorView<float const, 1, Host>(of.values.data(), {static_cast<std::int64_t>(of.values.size())});
        };
        return {row(convolution), row(dt_bias), row(decay), row(norm), 1e-5F};
    }
};

/// The definition in float64, value head by value head, with all tokens at hand.
std::vector<double> defined(Matrix<float> const& in, Matrix<float> const& ba, Weights const& w) {
    auto const tokens = in.rows;
    auto const values = shape.value_columns();
    auto const block = shape.channels() + values;
    std::vector<double> out(static_cast<std::size_t>(tokens * shape.value_heads * shape.value_dim));
    auto const sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
    // A channel of all q, all k and all v: where its inputs are, convolved at a token.
    auto const mixed = [&](std::int64_t token, std::int64_t head, std::int64_t channel) {
        auto const keys = shape.key_heads * shape.key_dim;
        auto row = head * shape.key_dim + channel;
        if (channel >= shape.key_dim) row += keys - shape.key_dim;
        if (channel >= 2 * shape.key_dim) row = 2 * keys + head * values + channel - 2 * shape.key_dim;
        double sum = 0.0;
        for (std::int64_t i = 0; i < shape.kernel; ++i) {
            auto const at = token - (shape.kernel - 1) + i;
            if (at >= 0)
                sum += static_cast<double>(w.convolution.values[static_cast<std::size_t>(row * shape.kernel + i)]) *
                       in.at(at, head * block + channel);
        }
        return sum * sigmoid(sum);
    };
    for (std::int64_t value_head = 0; value_head < shape.value_heads; ++value_head) {
        auto const group = shape.values_per_key();
        auto const head = value_head / group;
        auto const own = value_head % group;
        std::vector<double> matrix(static_cast<std::size_t>(shape.key_dim * shape.value_dim));
        for (std::int64_t token = 0; token < tokens; ++token) {
            std::vector<double> q;
            std::vector<double> k;
            double q_squares = 1e-6;
            double k_squares = 1e-6;
            for (std::int64_t i = 0; i < shape.key_dim; ++i) {
                q.push_back(mixed(token, head, i));
                k.push_back(mixed(token, head, shape.key_dim + i));
                q_squares += q.back() * q.back();
                k_squares += k.back() * k.back();
            }
            auto const at = static_cast<std::size_t>(value_head);
            auto const a = ba.at(token, head * 2 * group + group + own) + static_cast<double>(w.dt_bias.values[at]);
            auto const kept = std::exp(static_cast<double>(w.decay.values[at]) * std::log1p(std::exp(a)));
            auto const beta = sigmoid(ba.at(token, head * 2 * group + own));
            double squares = 0.0;
            std::vector<double> made;
            for (std::int64_t j = 0; j < shape.value_dim; ++j) {
                double known = 0.0;
                double result = 0.0;
                for (std::int64_t i = 0; i < shape.key_dim; ++i) {
                    auto& cell = matrix[static_cast<std::size_t>(i * shape.value_dim + j)];
                    cell *= kept;
                    known += cell * k[static_cast<std::size_t>(i)] / std::sqrt(k_squares);
                }
                auto const value = mixed(token, head, 2 * shape.key_dim + own * shape.value_dim + j);
                for (std::int64_t i = 0; i < shape.key_dim; ++i) {
                    auto& cell = matrix[static_cast<std::size_t>(i * shape.value_dim + j)];
                    cell += k[static_cast<std::size_t>(i)] / std::sqrt(k_squares) * (value - known) * beta;
                    result += cell * q[static_cast<std::size_t>(i)] / std::sqrt(q_squares * shape.key_dim);
                }
                made.push_back(result);
                squares += result * result;
            }
            for (std::int64_t j = 0; j < shape.value_dim; ++j) {
                auto const z = in.at(token, head * block + shape.channels() + own * shape.value_dim + j);
                out[static_cast<std::size_t>((token * shape.value_heads + value_head) * shape.value_dim + j)] =
                    made[static_cast<std::size_t>(j)] /
                    std::sqrt(squares / shape.value_dim + static_cast<double>(1e-5F)) *
                    static_cast<double>(w.norm.values[static_cast<std::size_t>(j)]) * z * sigmoid(z);
            }
        }
    }
    return out;
}

}  // namespace

// arXiv 2412.06464, equation 10, with the convolution, lengths and gate of transformers' Qwen3NextGatedDeltaNet.
TEST_CASE("gated_delta: is the rule's definition in float64, whole and in pieces of tokens, on any threads") {
    Weights const weights;
    std::int64_t const tokens = 23;
    auto const in = random_matrix<float>(tokens, 2 * (shape.channels() + shape.value_columns()), 5, 2.0F);
    auto const ba = random_matrix<float>(tokens, 12, 6, 2.0F);
    auto const expected = defined(in, ba, weights);
    std::vector<float> whole;
    for (std::int64_t const piece : {tokens, std::int64_t{1}, std::int64_t{5}}) {
        for (int const threads : {1, 2}) {
            HostContext context({.threads = threads});
            auto stream = context.make_stream();
            // A state of another sequence is forgotten.
            std::vector<float> state(static_cast<std::size_t>(shape.state_elements(2)), 7.0F);
            std::vector<float> room(static_cast<std::size_t>(gated_delta_workspace(shape, 2)));
            Matrix<float> out{tokens, 24};
            for (std::int64_t first = 0; first < tokens; first += piece) {
                auto const count = std::min(piece, tokens - first);
                auto const done = gated_delta(
                    in.read().rows(first, count), ba.read().rows(first, count), shape, weights.view(), first == 0,
                    TensorView<float, 1, Host>(state.data(), {static_cast<std::int64_t>(state.size())}),
                    TensorView<float, 1, Host>(room.data(), {static_cast<std::int64_t>(room.size())}),
                    out.view().rows(first, count), stream);
                REQUIRE(done);
            }
            double worst = 0.0;
            for (std::size_t i = 0; i < expected.size(); ++i)
                worst = std::max(worst, std::abs(expected[i] - static_cast<double>(out.values[i])));
            CHECK(worst < 2e-5);
            if (whole.empty()) whole = out.values;
            CHECK(out.values == whole);
        }
    }
}

TEST_CASE("gated_delta: sizes that the heads do not have are refused with what they are of") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    Weights const weights;
    auto const place = [&](std::int64_t in_width, std::int64_t ba_width, std::int64_t states, std::int64_t room,
                           std::int64_t out_width) {
        Matrix<float> const in{2, in_width};
        Matrix<float> const ba{2, ba_width};
        Matrix<float> out{2, out_width};
        std::vector<float> memory(1000);
        TensorView<float, 1, Host> const state(memory.data(), {states});
        TensorView<float, 1, Host> const workspace(memory.data() + 500, {room});
        auto const done =
            gated_delta(in.read(), ba.read(), shape, weights.view(), true, state, workspace, out.view(), stream);
        return done ? std::string("taken") : std::string(done.error().place());
    };
    auto const width = 2 * (shape.channels() + shape.value_columns());
    auto const states = shape.state_elements(2);
    auto const room = gated_delta_workspace(shape, 2);
    CHECK(place(width, 12, states, room, 24) == "taken");
    CHECK(place(width - 1, 12, states, room, 24) == "in");
    CHECK(place(width, 11, states, room, 24) == "ba");
    CHECK(place(width, 12, states - 1, room, 24) == "state");
    CHECK(place(width, 12, states, room - 1, 24) == "workspace");
    CHECK(place(width, 12, states, room, 23) == "out");
}

TEST_CASE("gated_delta: sequences of a step in one call have the bits of a call for each, and states of their own") {
    Weights const weights;
    struct Sequence {
        std::int64_t past;
        std::int64_t rows;
        std::int64_t slot;
    };
    auto const state_size = shape.state_elements(2);
    auto const in = random_matrix<float>(12, 2 * (shape.channels() + shape.value_columns()), 5, 2.0F);
    auto const ba = random_matrix<float>(12, 12, 6, 2.0F);
    // Two rows are beyond the step's.
    for (int const threads : {1, 2}) {
        HostContext context({.threads = threads});
        auto stream = context.make_stream();
        auto table = StepTable<Host>::create(context, {.tokens = 12, .sequences = 3});
        REQUIRE(table);
        std::vector<std::int32_t> const ids(10, 1);
        auto const write = [&](std::vector<Sequence> const& sequences) {
            std::vector<StepSequence> shown;
            for (auto const& one : sequences) shown.push_back({one.past, one.rows, {}, one.slot});
            return table->write({ids, shown}, stream);
        };
        std::vector<Sequence> const sequences{{0, 4, 3}, {7, 1, 0}, {2, 5, 2}};
        REQUIRE(write(sequences));
        auto states = random_matrix<float>(4, state_size, 9, 1.0F);
        auto apart = states;
        Matrix<float> room{1, 3 * gated_delta_workspace(shape, 2)};
        Matrix<float> out{12, 24};
        Matrix<float> expected{12, 24};
        auto const run = [&](std::int64_t held, std::int64_t floats) {
            return gated_delta(in.read(), ba.read(), shape, weights.view(), states.view().rows(0, held), *table,
                               TensorView<float, 1, Host>(room.values.data(), {floats}), out.view(), stream);
        };
        CHECK(run(4, room.width - 1).error().place() == "workspace");
        CHECK(run(3, room.width).error().place() == "states");
        REQUIRE(run(4, room.width));
        std::int64_t first = 0;
        for (auto const& one : sequences) {
            REQUIRE(gated_delta(in.read().rows(first, one.rows), ba.read().rows(first, one.rows), shape, weights.view(),
                                one.past == 0, TensorView<float, 1, Host>(apart.view().row(one.slot), {state_size}),
                                TensorView<float, 1, Host>(room.values.data(), {room.width}),
                                expected.view().rows(first, one.rows), stream));
            first += one.rows;
        }
        CHECK(out.values == expected.values);
        CHECK(states.values == apart.values);
        REQUIRE(write({{0, 4, 3}, {7, 1, 0}, {2, 5, 3}}));
        CHECK(run(4, room.width).error().place() == "slot");
    }
}
