// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/activation.hpp>

#include <doctest/doctest.h>

#include "row_matrices.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr double pi = 3.14159265358979323846;

}  // namespace

TEST_CASE("activation: each kind equals its formula in float64, far out too, to the digits of the result") {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 1, .isa = level});
        auto stream = context.make_stream();
        auto const sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
        auto const reference = [&](double x, ActivationKind kind) {
            switch (kind) {
                case ActivationKind::silu:
                    return x * sigmoid(x);
                case ActivationKind::gelu:
                    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
                case ActivationKind::gelu_tanh:
                case ActivationKind::gelu_new:
                case ActivationKind::gelu_fast:
                    // As a sigmoid: 1 + tanh would cancel, in float64 too.
                    return x * sigmoid(std::sqrt(8.0 / pi) * (x + 0.044715 * x * x * x));
                case ActivationKind::relu:
                    return std::max(x, 0.0);
                case ActivationKind::relu_squared:
                    return std::max(x, 0.0) * std::max(x, 0.0);
                case ActivationKind::tanh:
                    return std::tanh(x);
                case ActivationKind::quick_gelu:
                    return x * sigmoid(1.702 * x);
                case ActivationKind::sigmoid:
                    return sigmoid(x);
                case ActivationKind::swiglu_clamped:
                    return x * sigmoid(1.702 * x);
                case ActivationKind::xielu:
                    break;  // tests/kernels/xielu_test.cpp
            }
            return x;
        };
        Matrix<float> in{1, 401};
        for (std::int64_t i = 0; i < 401; ++i)
            in.values[static_cast<std::size_t>(i)] = static_cast<float>(i - 200) * 0.1F;
        // Roundings of each step and of the exponent's argument, which count as often as it is large; in the tails too.
        auto const roundings = [](double x, ActivationKind kind) {
            switch (kind) {
                case ActivationKind::gelu:
                    return 9.0 + 2.0 * x * x;  // erfc(z) takes on 2 z^2 + 1 times the error of z
                case ActivationKind::gelu_tanh:
                    return 7.0 + 6.0 * std::sqrt(8.0 / pi) * std::abs(x + 0.044715 * x * x * x);
                case ActivationKind::quick_gelu:
                    return 7.0 + 2.0 * 1.702 * std::abs(x);
                default:
                    return 7.0;
            }
        };
        for (auto const kind :
             {ActivationKind::silu, ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::relu,
              ActivationKind::tanh, ActivationKind::quick_gelu, ActivationKind::sigmoid, ActivationKind::relu_squared}) {
            Matrix<float> out{1, 401};
            REQUIRE(activation<float>(in.read(), out.view(), kind, stream));
            int wrong = 0;
            for (std::int64_t i = 0; i < 401; ++i) {
                auto const x = in.at(0, i);
                auto const expected = reference(x, kind);
                // Where exp(-x) is no float, x times its inverse may be zero: below 90 * 2^-128.
                auto const allowed = roundings(x, kind) * 0x1p-24 * std::abs(expected) + 0x1p-121;
                auto const one = static_cast<double>(activate(static_cast<float>(x), kind));
                wrong += std::abs(out.at(0, i) - expected) <= allowed && std::abs(one - expected) <= allowed ? 0 : 1;
            }
            CAPTURE(static_cast<int>(kind));
            CHECK(wrong == 0);
        }
        auto const up = random_matrix<float>(1, 401, 6, 9.0F);
        Matrix<float> out{1, 401};
        REQUIRE(gated_activation<float>(in.read(), up.read(), out.view(), ActivationKind::silu, stream));
        check_close<float>(
            out,
            [&](std::int64_t row, std::int64_t i) {
                return reference(in.at(row, i), ActivationKind::silu) * up.at(row, i);
            },
            8.0, 1.0);
        REQUIRE(gated_activation<float>(in.read(), up.read(), out.view(), ActivationKind::swiglu_clamped, stream));
        check_close<float>(
            out,
            [&](std::int64_t row, std::int64_t i) {
                auto const gate = std::min(in.at(row, i), 7.0);
                return gate * sigmoid(1.702 * gate) * (std::clamp(up.at(row, i), -7.0, 7.0) + 1.0);
            },
            8.0, 1.0);
    }
}

TEST_CASE_TEMPLATE("activation: of 16 bits gives the rounded results of float", T, Bfloat16, Float16) {
    auto in = random_matrix<T>(2, 1'003, 7, 4.0F);
    auto up = random_matrix<T>(2, 1'003, 8, 4.0F);
    Matrix<float> wide_in{2, 1'003};
    Matrix<float> wide_up{2, 1'003};
    for (std::size_t i = 0; i < in.values.size(); ++i) {
        wide_in.values[i] = static_cast<float>(in.values[i]);
        wide_up.values[i] = static_cast<float>(up.values[i]);
    }
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        for (auto const kind :
             {ActivationKind::silu, ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::relu,
              ActivationKind::tanh, ActivationKind::quick_gelu, ActivationKind::swiglu_clamped,
              ActivationKind::gelu_new, ActivationKind::gelu_fast, ActivationKind::sigmoid,
              ActivationKind::relu_squared}) {
            CAPTURE(static_cast<int>(kind));
            for (bool const is_gated : {false, true}) {
                Matrix<T> out{2, 1'003};
                Matrix<float> wide{2, 1'003};
                if (is_gated) {
                    REQUIRE(gated_activation<T>(in.read(), up.read(), out.view(), kind, stream));
                    REQUIRE(gated_activation<float>(wide_in.read(), wide_up.read(), wide.view(), kind, stream));
                } else {
                    REQUIRE(activation<T>(in.read(), out.view(), kind, stream));
                    REQUIRE(activation<float>(wide_in.read(), wide.view(), kind, stream));
                }
                int wrong = 0;
                for (std::size_t i = 0; i < out.values.size(); ++i)
                    wrong += static_cast<float>(out.values[i]) == static_cast<float>(T(wide.values[i])) ? 0 : 1;
                CHECK(wrong == 0);
            }
        }
    }
}
