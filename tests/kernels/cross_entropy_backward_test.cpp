// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/backward/cross_entropy.hpp>

#include <doctest/doctest.h>

#include "gradients.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// The loss on a head's logits and its gradients in float64, each with the size of what float32 rounds.
struct Loss {
    std::int64_t tokens, hidden, vocabulary;
    bool has_bias;
    HeadLossOptions options{};
    float factor = 1.0F;
    Matrix<float> in = numbered_matrix(tokens, hidden, 71, factor);
    Matrix<float> head = numbered_matrix(vocabulary, hidden, 72);
    Matrix<float> bias = numbered_matrix(1, vocabulary, 73);
    Matrix<float> weights = numbered_matrix(1, tokens, 74);
    std::vector<std::int32_t> targets{};
    Expected loss{1, tokens}, in_gradient{tokens, hidden}, head_gradient{vocabulary, hidden},
        bias_gradient{1, vocabulary};

    void fill() {
        for (std::int64_t t = 0; t < tokens; ++t)
            targets.push_back(t % 7 == 1 ? ignored_target : static_cast<std::int32_t>(t * t * 31 % vocabulary));
        if (tokens == 5) targets = {3, ignored_target, 0, 10, 3};
        for (auto& weight : weights.values) weight = std::abs(weight);
        for (std::int64_t t = 0; t < tokens; ++t) fill_token(t);
        // A sum in double, rounded once for each 256 tokens and once more where it is added.
        for (auto& allowed : bias_gradient.allowed) allowed *= 1.0;
    }
    void fill_token(std::int64_t t) {
        auto const target = targets[static_cast<std::size_t>(t)];
        if (target == ignored_target) return;
        auto const scale = static_cast<double>(options.scale), cap = static_cast<double>(options.soft_cap);
        std::vector<double> logits, errors, factors, factor_errors;
        double largest = -INFINITY, error = 0.0;
        for (std::int64_t o = 0; o < vocabulary; ++o) {
            double value = has_bias ? bias.at(0, o) : 0.0;
            double size = std::abs(value);
            for (std::int64_t i = 0; i < hidden; ++i) {
                value += in.at(t, i) * head.at(o, i);
                size += std::abs(in.at(t, i) * head.at(o, i));
            }
            value *= scale;
            auto of_value = std::abs(scale) * (static_cast<double>(hidden) + 3.0) * rounding * size;
            double slope = scale, of_slope = 0.0;
            if (cap > 0.0) {
                auto const turned = std::tanh(value / cap);
                slope = scale * (1.0 - turned * turned);
                // tanh is within three units in the last place; it comes back as the quotient of the logit and the cap.
                of_slope = 2.0 * std::abs(scale * turned) * (10.0 * rounding * std::abs(turned) + of_value / cap) +
                           4.0 * rounding * std::abs(slope);
                value = cap * turned;
                of_value += 9.0 * rounding * std::abs(value);
            }
            logits.push_back(value);
            errors.push_back(of_value);
            factors.push_back(slope);
            factor_errors.push_back(of_slope);
            largest = std::max(largest, value);
            error = std::max(error, of_value);
        }
        double sum = 0.0;
        for (auto const logit : logits) sum += std::exp(logit - largest);
        auto const value = std::log(sum) + largest - logits[static_cast<std::size_t>(target)];
        loss.add(0, t, value, 2.0 * error + rounding * (6.0 + 40.0 + std::abs(value)));
        auto const weight = weights.at(0, t);
        for (std::int64_t o = 0; o < vocabulary; ++o) {
            auto const at = static_cast<std::size_t>(o);
            auto const share = std::exp(logits[at] - largest) / sum;
            auto const own = target == o ? 1.0 : 0.0;
            // Of a share: its logit and all others' in the sum, the distance from the largest, exp, two roundings.
            auto const of_share = errors[at] + error + rounding * (largest - logits[at] + 8.0);
            auto const gradient = weight * (share - own) * factors[at];
            auto const of_gradient =
                weight * std::abs(factors[at]) * (share * of_share + rounding * std::abs(share - own)) +
                weight * std::abs(share - own) * factor_errors[at] + 2.0 * rounding * std::abs(gradient);
            bias_gradient.add(0, o, gradient, of_gradient + 4.0 * rounding * std::abs(gradient));
            for (std::int64_t i = 0; i < hidden; ++i) {
                in_gradient.add(t, i, gradient * head.at(o, i),
                                std::abs(head.at(o, i)) *
                                    (of_gradient + static_cast<double>(vocabulary) * rounding * std::abs(gradient)));
                head_gradient.add(o, i, gradient * in.at(t, i),
                                  std::abs(in.at(t, i)) *
                                      (of_gradient + static_cast<double>(tokens) * rounding * std::abs(gradient)));
            }
        }
    }
    [[nodiscard]] HeadLoss problem() const {
        return {in.read(),
                head.read(),
                has_bias ? bias.flat() : TensorView<float const, 1, Host>{},
                {targets.data(), {tokens}},
                weights.flat()};
    }
};

struct Made {
    Matrix<float> loss, in, head, bias;

    explicit Made(Loss const& of)
        : loss(numbered_matrix(1, of.tokens, 75)),
          in(numbered_matrix(of.tokens, of.hidden, 76)),
          head(numbered_matrix(of.vocabulary, of.hidden, 77)),
          bias(numbered_matrix(1, of.vocabulary, 78)) {}
    [[nodiscard]] HeadLossGradients views(bool is_added) {
        return {vector_of(loss), in.view(), head.view(), vector_of(bias), is_added, is_added};
    }
};

Result<> run(Loss const& loss, Made& made, bool is_added, HeadLossOptions const& options, HostStream& stream) {
    std::vector<float> workspace(
        static_cast<std::size_t>(head_cross_entropy_workspace(loss.tokens, loss.vocabulary, options)));
    auto const ran = head_cross_entropy(loss.problem(), made.views(is_added), options,
                                        {workspace.data(), {static_cast<std::int64_t>(workspace.size())}}, stream);
    if (!ran) return ran;
    return stream.synchronize(Deadline::after(std::chrono::seconds(60)));
}

}  // namespace

TEST_CASE("head_cross_entropy: losses and gradients within their roundings of float64's, which are torch's") {
    for (auto loss : {Loss{5, 6, 11, false}, Loss{5, 6, 11, true, {.scale = 0.5F, .soft_cap = 3.0F}},
                      Loss{1, 1, 1, false}, Loss{70, 24, 517, true, {.chunk = 32}},
                      Loss{300, 17, 90, false, {.scale = 0.25F}}, Loss{20, 8, 300, false, {}, 10.0F}}) {
        CAPTURE(loss.tokens);
        CAPTURE(loss.vocabulary);
        loss.fill();
        if (loss.tokens == 5) {
            std::string const name = loss.has_bias ? "cross_entropy.capped" : "cross_entropy.plain";
            check_torch(loss.loss, name + ".loss");
            check_torch(loss.in_gradient, name + ".in");
            check_torch(loss.head_gradient, name + ".head");
            if (loss.has_bias) check_torch(loss.bias_gradient, name + ".bias");
        }
        Made const before(loss);
        for (bool const is_added : {false, true}) {
            CAPTURE(is_added);
            auto made = before;
            for_levels_and_threads(
                [&](HostStream& stream) {
                    made = before;
                    REQUIRE(run(loss, made, is_added, loss.options, stream));
                    check_bounds(made.loss, loss.loss);
                    auto const check = [&](Matrix<float> const& got, Expected expected, Matrix<float> const& old,
                                           double terms) {
                        for (auto& allowed : expected.allowed) allowed += is_added ? terms * 2.0 * rounding : 0.0;
                        check_bounds(got, expected, is_added ? &old : nullptr);
                    };
                    auto const sums = [](std::int64_t count) { return static_cast<double>(count) / 32.0 + 2.0; };
                    check(made.in, loss.in_gradient, before.in, sums(loss.vocabulary));
                    check(made.head, loss.head_gradient, before.head, sums(loss.tokens));
                    check(made.bias, loss.bias_gradient, before.bias, sums(loss.tokens));
                },
                [&] {
                    return std::vector{made.loss, made.in, made.head, made.bias};
                });
        }
    }
}

TEST_CASE("head_cross_entropy: chunks of 256 tokens or more have the same bits, with the memory of one chunk") {
    Loss loss{700, 9, 40, true};
    loss.fill();
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    Made first(loss);
    REQUIRE(run(loss, first, false, {.chunk = 1024}, stream));
    for (std::int64_t const chunk : {256, 512}) {
        Made made(loss);
        REQUIRE(run(loss, made, false, {.chunk = chunk}, stream));
        CHECK(are_same_bits(made.loss, first.loss));
        CHECK(are_same_bits(made.in, first.in));
        CHECK(are_same_bits(made.head, first.head));
        CHECK(are_same_bits(made.bias, first.bias));
    }
    CHECK(head_cross_entropy_workspace(700, 40, {.chunk = 256}) == 256 * 40);
    CHECK(head_cross_entropy_workspace(7, 40, {.chunk = 256}) == 7 * 40);
}

TEST_CASE("head_cross_entropy: without gradients the losses are the same; without weights each counts once") {
    Loss loss{40, 9, 33, false};
    loss.fill();
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    Made made(loss);
    REQUIRE(run(loss, made, false, {}, stream));
    std::vector<float> workspace(40 * 33);
    TensorView<float, 1, Host> const memory{workspace.data(), {40 * 33}};
    Matrix<float> alone{1, 40};
    REQUIRE(head_cross_entropy(loss.problem(), {vector_of(alone)}, {}, memory, stream));
    CHECK(are_same_bits(alone, made.loss));
    auto plain = loss.problem();
    plain.weights = {};
    Made by_default(loss), by_ones(loss);
    REQUIRE(head_cross_entropy(plain, by_default.views(false), {}, memory, stream));
    loss.weights.values.assign(40, 1.0F);
    REQUIRE(run(loss, by_ones, false, {}, stream));
    CHECK(are_same_bits(by_default.in, by_ones.in));
    CHECK(are_same_bits(by_default.head, by_ones.head));
}

TEST_CASE("head_cross_entropy: a target that is no id stops the stream and is named; what does not fit is refused") {
    for (std::int32_t const wrong : {11, -1, -101}) {
        Loss loss{5, 6, 11, false};
        loss.fill();
        loss.targets[2] = wrong;
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        Made made(loss);
        auto const before = made;
        auto const refused = run(loss, made, false, {}, stream);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message().find("targets") != std::string::npos);
        CHECK(refused.error().message().find(std::to_string(wrong)) != std::string::npos);
        CHECK(are_same_bits(made.in, before.in));
    }
    Loss loss{5, 6, 11, false};
    loss.fill();
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    Made made(loss);
    auto const message = [&](HeadLossOptions const& options, std::int64_t floats) {
        std::vector<float> workspace(static_cast<std::size_t>(floats));
        auto const refused =
            head_cross_entropy(loss.problem(), made.views(false), options, {workspace.data(), {floats}}, stream);
        REQUIRE_FALSE(refused);
        return refused.error().message();
    };
    CHECK(message({}, 54).find("workspace") != std::string::npos);
    CHECK(message({.chunk = 0}, 55).find("chunk") != std::string::npos);
    CHECK(message({.soft_cap = -1.0F}, 55).find("soft_cap") != std::string::npos);
    CHECK(message({.scale = INFINITY}, 55).find("scale") != std::string::npos);
}
