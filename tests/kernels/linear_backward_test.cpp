// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/backward/linear.hpp>

#include <doctest/doctest.h>

#include "gradients.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

struct Linear {
    std::int64_t tokens, inputs, outputs;
    Matrix<float> in = numbered_matrix(tokens, inputs, 1);
    Matrix<float> weight = numbered_matrix(outputs, inputs, 2);
    Matrix<float> out_gradient = numbered_matrix(tokens, outputs, 3);

    /// A sum of n float products, each rounded, in any order: n roundings of the sum of their sizes.
    [[nodiscard]] Expected in_gradient() const {
        Expected made(tokens, inputs);
        for (std::int64_t t = 0; t < tokens; ++t)
            for (std::int64_t i = 0; i < inputs; ++i)
                for (std::int64_t o = 0; o < outputs; ++o) {
                    auto const product = out_gradient.at(t, o) * weight.at(o, i);
                    made.add(t, i, product, static_cast<double>(outputs) * rounding * std::abs(product));
                }
        return made;
    }
    [[nodiscard]] Expected weight_gradient() const {
        Expected made(outputs, inputs);
        for (std::int64_t o = 0; o < outputs; ++o)
            for (std::int64_t i = 0; i < inputs; ++i)
                for (std::int64_t t = 0; t < tokens; ++t) {
                    auto const product = out_gradient.at(t, o) * in.at(t, i);
                    made.add(o, i, product, static_cast<double>(tokens) * rounding * std::abs(product));
                }
        return made;
    }
    /// A sum in double, rounded once.
    [[nodiscard]] Expected bias_gradient() const {
        Expected made(1, outputs);
        for (std::int64_t o = 0; o < outputs; ++o) {
            for (std::int64_t t = 0; t < tokens; ++t) made.add(0, o, out_gradient.at(t, o), 0.0);
            made.allowed[made.at(0, o)] = rounding * std::abs(made.values[made.at(0, o)]);
        }
        return made;
    }
};

}  // namespace

TEST_CASE("linear_backward: three gradients within their roundings of float64's, which are torch's, on any threads") {
    for (Linear const& linear : {Linear{5, 7, 3}, Linear{1, 1, 1}, Linear{300, 65, 130}}) {
        auto const in_expected = linear.in_gradient();
        auto const weight_expected = linear.weight_gradient();
        auto const bias_expected = linear.bias_gradient();
        if (linear.tokens == 5) {
            check_torch(in_expected, "linear.in");
            check_torch(weight_expected, "linear.weight");
            check_torch(bias_expected, "linear.bias");
        }
        for (bool const is_added : {false, true}) {
            CAPTURE(is_added);
            auto const in_before = numbered_matrix(linear.tokens, linear.inputs, 4);
            auto const weight_before = numbered_matrix(linear.outputs, linear.inputs, 5);
            auto const bias_before = numbered_matrix(1, linear.outputs, 6);
            Matrix<float> in_gradient{0, 0}, weight_gradient{0, 0}, bias_gradient{0, 0};
            for_levels_and_threads(
                [&](HostStream& stream) {
                    in_gradient = in_before;
                    weight_gradient = weight_before;
                    bias_gradient = bias_before;
                    auto const dy = linear.out_gradient.read();
                    REQUIRE(linear_input_gradient(dy, linear.weight.read(), in_gradient.view(), {.is_added = is_added},
                                                  stream));
                    REQUIRE(linear_weight_gradient(dy, linear.in.read(), weight_gradient.view(), {.is_added = is_added},
                                                   stream));
                    REQUIRE(linear_bias_gradient(dy, vector_of(bias_gradient), is_added, stream));
                    check_bounds(in_gradient, in_expected, is_added ? &in_before : nullptr);
                    check_bounds(weight_gradient, weight_expected, is_added ? &weight_before : nullptr);
                    check_bounds(bias_gradient, bias_expected, is_added ? &bias_before : nullptr);
                },
                [&] {
                    return std::vector{in_gradient, weight_gradient, bias_gradient};
                });
        }
    }
}

TEST_CASE("linear_backward: a bias as wide as something else is refused; no tokens make zeros") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const dy = numbered_matrix(3, 4, 1);
    auto narrow = numbered_matrix(1, 3, 2);
    auto const refused = linear_bias_gradient(dy.read(), vector_of(narrow), false, stream);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("one element per column") != std::string::npos);
    auto bias = numbered_matrix(1, 4, 2);
    REQUIRE(linear_bias_gradient(dy.read().rows(0, 0), vector_of(bias), false, stream));
    CHECK(bias.values == std::vector<float>(4, 0.0F));
}
