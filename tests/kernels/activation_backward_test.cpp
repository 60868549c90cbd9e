// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/backward/activation.hpp>
#include <shardwise/kernels/backward/add.hpp>
#include <shardwise/kernels/backward/scale.hpp>
#include <shardwise/kernels/backward/soft_cap.hpp>

#include <doctest/doctest.h>

#include "gradients.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr double pi = 3.14159265358979323846;

constexpr std::pair<ActivationKind, char const*> kinds[] = {
    {ActivationKind::silu, "silu"},           {ActivationKind::gelu, "gelu"},
    {ActivationKind::gelu_tanh, "gelu_tanh"}, {ActivationKind::relu, "relu"},
    {ActivationKind::tanh, "tanh"},           {ActivationKind::quick_gelu, "quick_gelu"},
    {ActivationKind::gelu_new, "gelu_tanh"},  {ActivationKind::gelu_fast, "gelu_tanh"},
    {ActivationKind::sigmoid, "sigmoid"},     {ActivationKind::relu_squared, "relu_squared"},
};

/// A value and its roundings' size.
struct Bounded {
    double value = 0.0;
    double error = 0.0;
};
struct Slope64 {
    Bounded value, slope;
};

/// Of x sigmoid(z) with z' x = x_slope. exp is within two units in the last place, its inverse 1 + ... takes two roundings and a
/// product more: 8 of a sigmoid, and each rounding of z counts as often as z is large.
Slope64 swish64(double x, double z, double x_slope, double z_roundings) {
    auto const rising = 1.0 / (1.0 + std::exp(-z));
    auto const falling = 1.0 / (1.0 + std::exp(z));
    auto const term = x_slope * falling;
    auto const of_share = 8.0 + z_roundings * std::abs(z);
    return {{x * rising, rounding * (1.0 + of_share) * std::abs(x * rising)},
            {rising * (1.0 + term),
             rounding * rising *
                 ((of_share + 2.0) * std::abs(1.0 + term) + (of_share + 1.0 + z_roundings) * std::abs(term))}};
}

Slope64 slope64(double x, ActivationKind kind) {
    switch (kind) {
        case ActivationKind::silu:
            return swish64(x, x, x, 0.0);
        case ActivationKind::quick_gelu:
        case ActivationKind::swiglu_clamped:
            return swish64(x, 1.702 * x, 1.702 * x, 2.0);
        case ActivationKind::gelu_tanh:
        case ActivationKind::gelu_new:
        case ActivationKind::gelu_fast: {
            auto const factor = std::sqrt(8.0 / pi);
            return swish64(x, factor * (x + 0.044715 * x * x * x), factor * (x + 3.0 * 0.044715 * x * x * x), 6.0);
        }
        case ActivationKind::gelu: {
            auto const share = 0.5 * std::erfc(-x / std::sqrt(2.0));
            auto const least = 0.5 * std::erfc(std::abs(x) / std::sqrt(2.0));
            auto const height = std::exp(-x * x / 2.0) / std::sqrt(2.0 * pi);
            // x^2 / 2 is rounded once, exp takes that on as often as it is large; a polynomial, a quotient and their argument.
            auto const of_share = (15.0 + x * x / 2.0) * least + share;
            return {{x * share, rounding * (std::abs(x) * of_share + std::abs(x * share))},
                    {share + x * height, rounding * (of_share + (9.0 + x * x / 2.0) * std::abs(x * height) +
                                                     std::abs(share + x * height))}};
        }
        case ActivationKind::relu:
            return {{std::max(x, 0.0), 0.0}, {x > 0.0 ? 1.0 : 0.0, 0.0}};
        case ActivationKind::relu_squared: {
            auto const positive = std::max(x, 0.0);
            return {{positive * positive, rounding * positive * positive}, {2.0 * positive, 0.0}};
        }
        case ActivationKind::tanh: {
            auto const value = std::tanh(x);
            auto const slope = 1.0 / (std::cosh(x) * std::cosh(x));
            return {{value, 6.0 * rounding * std::abs(value)}, {slope, 13.0 * rounding * slope}};
        }
        case ActivationKind::sigmoid: {
            auto const rising = 1.0 / (1.0 + std::exp(-x));
            auto const falling = 1.0 / (1.0 + std::exp(x));
            return {{rising, 8.0 * rounding * rising}, {rising * falling, 17.0 * rounding * rising * falling}};
        }
        case ActivationKind::xielu:
            // Has no gradient.
            break;
    }
    return {};
}

Expected expected_of(Matrix<float> const& in, Matrix<float> const& out_gradient, ActivationKind kind) {
    Expected made(in.rows, in.width);
    for (std::int64_t row = 0; row < in.rows; ++row)
        for (std::int64_t i = 0; i < in.width; ++i) {
            auto const slope = slope64(in.at(row, i), kind).slope;
            auto const gradient = out_gradient.at(row, i);
            made.add(row, i, gradient * slope.value,
                     std::abs(gradient) * (slope.error + rounding * std::abs(slope.value)));
        }
    return made;
}

struct Gated {
    Expected gate, up;
};
Gated expected_of_gate(Matrix<float> const& gate, Matrix<float> const& up, Matrix<float> const& out_gradient,
                       ActivationKind kind) {
    Gated made{{gate.rows, gate.width}, {gate.rows, gate.width}};
    bool const is_clamped = kind == ActivationKind::swiglu_clamped;
    for (std::int64_t row = 0; row < gate.rows; ++row)
        for (std::int64_t i = 0; i < gate.width; ++i) {
            auto const x = gate.at(row, i), y = up.at(row, i), gradient = out_gradient.at(row, i);
            auto const at = slope64(is_clamped ? std::min(x, 7.0) : x, kind);
            auto const factor = is_clamped ? std::clamp(y, -7.0, 7.0) + 1.0 : y;
            if (!is_clamped || x <= 7.0) {
                made.gate.add(
                    row, i, gradient * factor * at.slope.value,
                    std::abs(gradient * factor) * (at.slope.error + 3.0 * rounding * std::abs(at.slope.value)));
            }
            if (!is_clamped || std::abs(y) <= 7.0) {
                made.up.add(row, i, gradient * at.value.value,
                            std::abs(gradient) * (at.value.error + rounding * std::abs(at.value.value)));
            }
        }
    return made;
}

/// Values all over, and out to where everything has over- and underflown.
Matrix<float> wide_inputs() {
    auto in = numbered_matrix(3, 421, 31, 3.0F);
    for (std::size_t i = 0; i < 421; ++i) in.values[i] = (static_cast<float>(i) - 210.0F) * 0.1F;
    std::size_t at = 421;
    for (float const far : {0.0F, -0.0F, 100.0F, -100.0F, 1e4F, -1e4F, 3e37F, -3e37F, 1e-40F, -1e-40F, 7.0F, 7.0001F})
        in.values[at++] = far;
    return in;
}

}  // namespace

TEST_CASE("activation_backward: every kind within its roundings of float64's derivative, which is torch's") {
    for (auto const& one : kinds) {
        auto const kind = one.first;
        auto const* const name = one.second;
        CAPTURE(name);
        auto const small = numbered_matrix(2, 12, 31, 2.0F);
        check_torch(expected_of(small, numbered_matrix(2, 12, 32), kind), std::string("activation.") + name);
        for (auto const& in : {wide_inputs(), numbered_matrix(70, 700, 31, 2.0F)}) {
            auto const out_gradient = numbered_matrix(in.rows, in.width, 32);
            auto const before = numbered_matrix(in.rows, in.width, 33);
            auto const expected = expected_of(in, out_gradient, kind);
            for (bool const is_added : {false, true}) {
                auto made = before;
                for_levels_and_threads(
                    [&](HostStream& stream) {
                        made = before;
                        REQUIRE(
                            activation_backward(in.read(), out_gradient.read(), made.view(), is_added, kind, stream));
                        check_bounds(made, expected, is_added ? &before : nullptr);
                    },
                    [&] { return std::vector{made}; });
            }
        }
    }
}

TEST_CASE("gated_activation_backward: both gradients, clamped ones too, within their roundings of float64's") {
    auto const check = [](Matrix<float> const& gate, Matrix<float> const& up, ActivationKind kind) {
        auto const out_gradient = numbered_matrix(gate.rows, gate.width, 36);
        auto const expected = expected_of_gate(gate, up, out_gradient, kind);
        auto const before = numbered_matrix(gate.rows, gate.width, 37);
        for (bool const is_added : {false, true}) {
            auto gates = before, ups = before;
            for_levels_and_threads(
                [&](HostStream& stream) {
                    gates = ups = before;
                    REQUIRE(gated_activation_backward(gate.read(), up.read(), out_gradient.read(), gates.view(),
                                                      ups.view(), is_added, kind, stream));
                    check_bounds(gates, expected.gate, is_added ? &before : nullptr);
                    check_bounds(ups, expected.up, is_added ? &before : nullptr);
                },
                [&] {
                    return std::vector{gates, ups};
                });
        }
    };
    for (auto const kind : {ActivationKind::silu, ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::relu,
                            ActivationKind::swiglu_clamped}) {
        CAPTURE(static_cast<int>(kind));
        check(numbered_matrix(50, 700, 34, 5.0F), numbered_matrix(50, 700, 35, 5.0F), kind);
    }
    for (auto const& one :
         {std::pair{ActivationKind::silu, "silu"}, std::pair{ActivationKind::swiglu_clamped, "clamped"}}) {
        auto const kind = one.first;
        auto const* const name = one.second;
        auto const expected = expected_of_gate(numbered_matrix(2, 12, 34, 5.0F), numbered_matrix(2, 12, 35, 5.0F),
                                               numbered_matrix(2, 12, 36), kind);
        check_torch(expected.gate, std::string("gated.") + name + ".gate");
        check_torch(expected.up, std::string("gated.") + name + ".up");
    }
    // On the bounds themselves torch's clamp has a gradient.
    Matrix<float> edge{1, 3, {7.0F, 7.0F, 1.0F}};
    Matrix<float> const ups{1, 3, {7.0F, -7.0F, -7.0F}};
    check(edge, ups, ActivationKind::swiglu_clamped);
}

TEST_CASE("activation_backward: a gradient may take the place of its input or of the output's") {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    auto const gate = numbered_matrix(3, 77, 34), up = numbered_matrix(3, 77, 35), dy = numbered_matrix(3, 77, 36);
    Matrix<float> gates{3, 77}, ups{3, 77};
    REQUIRE(gated_activation_backward(gate.read(), up.read(), dy.read(), gates.view(), ups.view(), false,
                                      ActivationKind::silu, stream));
    auto gate_place = gate, dy_place = dy;
    REQUIRE(gated_activation_backward(gate_place.read(), up.read(), dy_place.read(), gate_place.view(), dy_place.view(),
                                      false, ActivationKind::silu, stream));
    CHECK(are_same_bits(gates, gate_place));
    CHECK(are_same_bits(ups, dy_place));
    auto const refused =
        activation_backward(gate.read(), dy.read().rows(0, 2), gates.view(), false, ActivationKind::silu, stream);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("out_gradient") != std::string::npos);
}

TEST_CASE("activation_backward: a NaN that the forward pass hands on stays one") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    Matrix<float> const in{1, 1, {std::numeric_limits<float>::quiet_NaN()}};
    Matrix<float> const dy{1, 1, {3.0F}};
    for (auto const& one : kinds) {
        auto const kind = one.first;
        auto const* const name = one.second;
        CAPTURE(name);
        Matrix<float> made{1, 1};
        REQUIRE(activation_backward(in.read(), dy.read(), made.view(), false, kind, stream));
        // torch's relu hands the gradient on.
        if (kind == ActivationKind::relu) {
            CHECK(made.values[0] == 3.0F);
        } else {
            CHECK(std::isnan(made.values[0]));
        }
    }
}

TEST_CASE("activations: xielu, which has a kernel of its own, is refused") {
    Matrix<float> a{2, 3}, b{2, 3}, c{2, 3}, d{2, 3}, e{2, 3};
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const xielu = ActivationKind::xielu;
    CHECK(activation(a.read(), b.view(), xielu, stream).error().message() ==
          "activation: xielu: has numbers of its own; call xielu");
    for (auto const& refused : {gated_activation(a.read(), b.read(), c.view(), xielu, stream),
                                activation_backward(a.read(), b.read(), c.view(), false, xielu, stream),
                                gated_activation_backward(a.read(), b.read(), c.read(), d.view(), e.view(), false, xielu,
                                                          stream)})
        CHECK(refused.error().code() == ErrorCode::unsupported);
}

TEST_CASE("soft_cap_backward: within its roundings of float64's, which is torch's; a cap of 0 is refused") {
    auto const expected_of_cap = [](Matrix<float> const& in, Matrix<float> const& out_gradient, double cap) {
        Expected made(in.rows, in.width);
        for (std::int64_t row = 0; row < in.rows; ++row)
            for (std::int64_t i = 0; i < in.width; ++i) {
                auto const inner = in.at(row, i) / cap;
                auto const value = out_gradient.at(row, i) / (std::cosh(inner) * std::cosh(inner));
                // The quotient's rounding counts twice as often as it is large.
                made.add(row, i, value, (14.0 + 2.0 * std::abs(inner)) * rounding * std::abs(value));
            }
        return made;
    };
    check_torch(expected_of_cap(numbered_matrix(2, 12, 38, 20.0F), numbered_matrix(2, 12, 39), 30.0), "soft_cap");
    auto const in = numbered_matrix(60, 801, 38, 40.0F);
    auto const out_gradient = numbered_matrix(60, 801, 39);
    auto const before = numbered_matrix(60, 801, 40);
    auto const expected = expected_of_cap(in, out_gradient, 30.0);
    for (bool const is_added : {false, true}) {
        auto made = before;
        for_levels_and_threads(
            [&](HostStream& stream) {
                made = before;
                REQUIRE(soft_cap_backward(in.read(), out_gradient.read(), made.view(), is_added, 30.0F, stream));
                check_bounds(made, expected, is_added ? &before : nullptr);
            },
            [&] { return std::vector{made}; });
    }
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto made = before;
    CHECK_FALSE(soft_cap_backward(in.read(), out_gradient.read(), made.view(), false, 0.0F, stream));
}

TEST_CASE("scale_backward and add_backward: one rounding of the product, one where it is added; an addition has none") {
    auto const out_gradient = numbered_matrix(60, 801, 41);
    auto const before = numbered_matrix(60, 801, 42);
    for (bool const is_added : {false, true}) {
        auto scaled = before, added = before;
        for_levels_and_threads(
            [&](HostStream& stream) {
                scaled = added = before;
                REQUIRE(scale_backward(out_gradient.read(), scaled.view(), is_added, 0.3F, stream));
                REQUIRE(add_backward(out_gradient.read(), added.view(), is_added, stream));
            },
            [&] {
                return std::vector{scaled, added};
            });
        Expected by_scale(60, 801), by_sum(60, 801);
        for (std::int64_t row = 0; row < 60; ++row)
            for (std::int64_t i = 0; i < 801; ++i) {
                auto const product = static_cast<double>(0.3F) * out_gradient.at(row, i);
                by_scale.add(row, i, product, rounding * std::abs(product));
                by_sum.add(row, i, out_gradient.at(row, i), 0.0);
            }
        check_bounds(scaled, by_scale, is_added ? &before : nullptr);
        check_bounds(added, by_sum, is_added ? &before : nullptr);
        if (!is_added) CHECK(are_same_bits(added, out_gradient));
    }
}
