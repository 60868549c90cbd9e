// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/backward/attention.hpp>

#include <doctest/doctest.h>

#include "gradients.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// The attention of one sequence and its gradients in float64, each with the size of what float32 rounds.
struct Attention {
    std::string name;
    AttentionOptions options;
    std::int64_t queries, keys;
    std::vector<float> slopes{};
    float factor = 1.0F;

    AttentionShape shape() const { return options.shape; }
    std::int64_t q_width() const { return shape().heads * shape().key_dim; }
    std::int64_t k_width() const { return shape().kv_heads * shape().key_dim; }
    std::int64_t v_width() const { return shape().kv_heads * shape().value_dim; }
    std::int64_t out_width() const { return shape().heads * shape().value_dim; }

    Matrix<float> q{}, k{}, v{}, out_gradient{}, out{}, log_sums{};
    Expected out64{}, log_sums64{}, q_gradient{}, k_gradient{}, v_gradient{};

    void fill() {
        auto const s = shape();
        q = numbered_matrix(queries, q_width(), 61, factor);
        k = numbered_matrix(keys, k_width(), 62);
        v = numbered_matrix(keys, v_width(), 63);
        out_gradient = numbered_matrix(queries, out_width(), 64);
        out = {queries, out_width()};
        log_sums = {queries, s.heads};
        out64 = {queries, out_width()};
        log_sums64 = {queries, s.heads};
        q_gradient = {queries, q_width()};
        k_gradient = {keys, k_width()};
        v_gradient = {keys, v_width()};
        for (std::int64_t head = 0; head < s.heads; ++head)
            for (std::int64_t query = 0; query < queries; ++query) fill_row(head, query);
    }

    struct Score {
        std::int64_t key = 0;
        double value = 0.0, error = 0.0, factor = 1.0, factor_error = 0.0, weight = 0.0;
    };

    void fill_row(std::int64_t head, std::int64_t query) {
        auto const s = shape();
        auto const kv = head / (s.heads / s.kv_heads);
        auto const scale =
            options.scale > 0.0F ? static_cast<double>(options.scale) : 1.0 / std::sqrt(static_cast<double>(s.key_dim));
        auto const cap = static_cast<double>(options.soft_cap);
        auto const position = options.first_query.value_or(std::max<std::int64_t>(keys - queries, 0)) + query;
        std::vector<Score> scores;
        double largest = -INFINITY, error = 0.0;
        for (std::int64_t key = 0; key < keys; ++key) {
            auto const distance = position - key;
            if ((s.is_causal && distance < 0) || (s.window > 0 && std::abs(distance) >= s.window)) continue;
            Score score{key};
            double size = 0.0;
            for (std::int64_t d = 0; d < s.key_dim; ++d) {
                auto const product = q.at(query, head * s.key_dim + d) * k.at(key, kv * s.key_dim + d);
                score.value += scale * product;
                size += scale * std::abs(product);
            }
            // A float sum of products, times a rounded scale.
            score.error = (static_cast<double>(s.key_dim) + 2.0) * rounding * size;
            if (cap > 0.0) {
                auto const turned = std::tanh(score.value / cap);
                score.factor = 1.0 - turned * turned;
                // tanh is within three units in the last place; its argument is rounded, too.
                score.factor_error = 2.0 * std::abs(turned) * (8.0 * rounding * std::abs(turned) + score.error / cap) +
                                     3.0 * rounding * score.factor;
                score.value = cap * turned;
                score.error += 9.0 * rounding * std::abs(score.value);
            }
            if (!slopes.empty()) {
                auto const bias = static_cast<double>(slopes[static_cast<std::size_t>(head)]) *
                                  static_cast<double>(std::abs(distance));
                score.value -= bias;
                score.error += rounding * (2.0 * bias + std::abs(score.value));
            }
            largest = std::max(largest, score.value);
            error = std::max(error, score.error);
            scores.push_back(score);
        }
        double sum = 0.0;
        for (auto const& score : scores) sum += std::exp(score.value - largest);
        auto const log_sum = scores.empty() ? -INFINITY : largest + std::log(sum);
        auto const n = static_cast<double>(scores.size());
        // The forward pass adds weights in float by lanes; what a weight has lost is the score's error and exp's.
        log_sums64.add(query, head, log_sum,
                       error + rounding * (n / 4.0 + 10.0 + 2.0 * (std::abs(largest) + std::abs(log_sum))));
        log_sums.values[log_sums64.at(query, head)] = static_cast<float>(log_sum);
        double share = 0.0, share_size = 0.0;
        for (std::int64_t d = 0; d < s.value_dim; ++d) {
            auto const column = head * s.value_dim + d;
            double value = 0.0;
            for (auto& score : scores) {
                score.weight = std::exp(score.value - log_sum);
                value += score.weight * v.at(score.key, kv * s.value_dim + d);
            }
            out64.values[out64.at(query, column)] = value;
            out.values[out64.at(query, column)] = static_cast<float>(value);
            share += value * out_gradient.at(query, column);
            share_size += std::abs(value * out_gradient.at(query, column));
        }
        for (auto const& score : scores) {
            double inner = -share, size = 0.0;
            for (std::int64_t d = 0; d < s.value_dim; ++d) {
                auto const product =
                    out_gradient.at(query, head * s.value_dim + d) * v.at(score.key, kv * s.value_dim + d);
                inner += product;
                size += std::abs(product);
            }
            // Of a weight: the score, the rounded log-sum, their difference, exp.
            auto const of_weight = score.error + rounding * (std::abs(log_sum) + std::abs(score.value - log_sum) + 5.0);
            // A float sum of products; out, of which the share is made, is rounded, and the share.
            auto const of_inner = rounding * ((static_cast<double>(s.value_dim) + 1.0) * size + share_size +
                                              std::abs(share) + std::abs(inner));
            auto const outer = scale * score.factor;
            auto const gradient = score.weight * inner * outer;
            auto const gradient_error = score.weight * outer * (of_weight * std::abs(inner) + of_inner) +
                                        4.0 * rounding * std::abs(gradient) +
                                        score.weight * std::abs(inner) * scale * score.factor_error;
            for (std::int64_t d = 0; d < s.key_dim; ++d) {
                auto const a = k.at(score.key, kv * s.key_dim + d), b = q.at(query, head * s.key_dim + d);
                q_gradient.add(query, head * s.key_dim + d, gradient * a,
                               std::abs(a) * (gradient_error + (n + 1.0) * rounding * std::abs(gradient)));
                k_gradient.add(score.key, kv * s.key_dim + d, gradient * b,
                               std::abs(b) * (gradient_error + terms() * rounding * std::abs(gradient)));
            }
            for (std::int64_t d = 0; d < s.value_dim; ++d) {
                auto const dy = out_gradient.at(query, head * s.value_dim + d);
                v_gradient.add(score.key, kv * s.value_dim + d, score.weight * dy,
                               std::abs(dy) * score.weight * (of_weight + terms() * rounding));
            }
        }
    }
    /// Roundings of a sum over the queries and a group's heads.
    double terms() const { return static_cast<double>(queries + shape().heads / shape().kv_heads); }

    [[nodiscard]] AttentionForward forward() const {
        return {q.read(),
                k.read(),
                v.read(),
                out.read(),
                log_sums.read(),
                out_gradient.read(),
                {slopes.data(), {static_cast<std::int64_t>(slopes.size())}}};
    }
};

AttentionShape shape_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t key_dim, std::int64_t value_dim,
                        std::int64_t window = 0, bool is_causal = true) {
    return {.heads = heads,
            .kv_heads = kv_heads,
            .key_dim = key_dim,
            .value_dim = value_dim,
            .window = window,
            .is_causal = is_causal};
}

std::vector<Attention> problems() {
    std::vector<float> const slopes{0x1p-2F, 0x1p-4F, 0x1p-6F, 0x1p-8F};
    return {
        {"causal", {.shape = shape_of(4, 2, 6, 5)}, 7, 7},
        {"window", {.shape = shape_of(3, 1, 4, 4, 3)}, 9, 9},
        {"past", {.shape = shape_of(2, 2, 4, 3)}, 3, 8},
        {"whole", {.shape = shape_of(2, 2, 5, 4, 3, false)}, 5, 5},
        {"capped", {.shape = shape_of(2, 1, 6, 6), .scale = 0.25F, .soft_cap = 2.0F}, 6, 6},
        {"alibi", {.shape = shape_of(4, 4, 4, 4)}, 6, 6, slopes},
        // Over the edges of blocks.
        {"long", {.shape = shape_of(4, 2, 20, 33)}, 150, 150},
        {"long window", {.shape = shape_of(2, 2, 16, 16, 70)}, 200, 200},
        {"long past", {.shape = shape_of(5, 1, 8, 8, 100), .first_query = 60}, 70, 131},
        {"long whole", {.shape = shape_of(3, 3, 8, 8, 0, false), .soft_cap = 5.0F}, 65, 129},
        {"sharp", {.shape = shape_of(2, 1, 8, 8)}, 80, 80, {}, 30.0F},
        {"one", {.shape = shape_of(1, 1, 1, 1)}, 1, 1},
    };
}

struct Made {
    Matrix<float> q, k, v;
};

Result<> run(Attention const& attention, Made& made, bool is_added, HostStream& stream) {
    std::vector<float> workspace(
        static_cast<std::size_t>(attention_backward_workspace(attention.shape(), attention.queries, attention.keys)));
    return attention_backward(attention.forward(), {made.q.view(), made.k.view(), made.v.view(), is_added},
                              attention.options, {workspace.data(), {static_cast<std::int64_t>(workspace.size())}},
                              stream);
}

}  // namespace

TEST_CASE("attention_backward: gradients within their roundings of float64's, which are torch's, on any threads") {
    for (auto& attention : problems()) {
        CAPTURE(attention.name);
        attention.fill();
        if (attention.queries < 10 && attention.name != "one") {
            check_torch(attention.q_gradient, "attention." + attention.name + ".q");
            check_torch(attention.k_gradient, "attention." + attention.name + ".k");
            check_torch(attention.v_gradient, "attention." + attention.name + ".v");
        }
        Made const before{numbered_matrix(attention.queries, attention.q_width(), 65),
                          numbered_matrix(attention.keys, attention.k_width(), 66),
                          numbered_matrix(attention.keys, attention.v_width(), 67)};
        for (bool const is_added : {false, true}) {
            CAPTURE(is_added);
            auto made = before;
            for_levels_and_threads(
                [&](HostStream& stream) {
                    made = before;
                    REQUIRE(run(attention, made, is_added, stream));
                    if (is_added) {
                        // What was there takes part in every addition of the sums.
                        auto expected = attention.q_gradient;
                        for (std::size_t i = 0; i < expected.values.size(); ++i)
                            expected.allowed[i] += static_cast<double>(attention.keys) * 2.0 * rounding;
                        check_bounds(made.q, expected, &before.q);
                        for (auto const& [got, sums, old] : {std::tuple{&made.k, &attention.k_gradient, &before.k},
                                                             std::tuple{&made.v, &attention.v_gradient, &before.v}}) {
                            expected = *sums;
                            for (auto& allowed : expected.allowed) allowed += attention.terms() * 2.0 * rounding;
                            check_bounds(*got, expected, old);
                        }
                    } else {
                        check_bounds(made.q, attention.q_gradient);
                        check_bounds(made.k, attention.k_gradient);
                        check_bounds(made.v, attention.v_gradient);
                    }
                },
                [&] {
                    return std::vector{made.q, made.k, made.v};
                });
        }
    }
}

TEST_CASE("attention: keeps the log-sums that its backward pass reads, with a split context too") {
    for (auto& attention : problems()) {
        CAPTURE(attention.name);
        attention.fill();
        for (bool const splits : {false, true}) {
            Matrix<float> out{attention.queries, attention.out_width()};
            Matrix<float> log_sums{attention.queries, attention.shape().heads};
            for_levels_and_threads(
                [&](HostStream& stream) {
                    std::vector<float> workspace(static_cast<std::size_t>(
                        splits ? shardwise::attention_workspace(attention.options, attention.queries, attention.keys)
                               : 0));
                    REQUIRE(shardwise::attention<float, float>(
                        attention.q.read(), attention.k.read(), attention.v.read(), out.view(), attention.options,
                        stream, {workspace.data(), {static_cast<std::int64_t>(workspace.size())}}, {},
                        attention.forward().slopes, log_sums.view()));
                    check_bounds(log_sums, attention.log_sums64);
                },
                [&] {
                    return std::vector{out, log_sums};
                });
        }
    }
}

TEST_CASE("attention_backward: a query that sees no key, and a key that no query sees, have gradients of zero") {
    // Queries from 40 on see nothing of 8 keys through a window of 4.
    Attention attention{"apart", {.shape = shape_of(2, 1, 4, 4, 4, false), .first_query = 8}, 50, 8};
    attention.fill();
    Made made{numbered_matrix(50, 8, 65), numbered_matrix(8, 4, 66), numbered_matrix(8, 4, 67)};
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    REQUIRE(run(attention, made, false, stream));
    check_bounds(made.q, attention.q_gradient);
    check_bounds(made.k, attention.k_gradient);
    for (std::size_t i = 12 * 8; i < made.q.values.size(); ++i) CHECK(made.q.values[i] == 0.0F);
    for (std::size_t i = 0; i < 4 * 4; ++i) CHECK(made.k.values[i] == 0.0F);
}

TEST_CASE("attention_backward: what does not fit or has no gradient is refused by its name") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto attention = problems()[0];
    attention.fill();
    Made made{numbered_matrix(7, 24, 65), numbered_matrix(7, 12, 66), numbered_matrix(7, 10, 67)};
    std::vector<float> workspace(4 * 7 * 12);
    TensorView<float, 1, Host> const whole{workspace.data(), {static_cast<std::int64_t>(workspace.size())}};
    auto const message = [&](AttentionForward const& in, AttentionOptions const& options,
                             TensorView<float, 1, Host> memory) {
        auto const refused =
            attention_backward(in, {made.q.view(), made.k.view(), made.v.view()}, options, memory, stream);
        REQUIRE_FALSE(refused);
        return refused.error().message();
    };
    auto in = attention.forward();
    CHECK(message(in, attention.options, whole.part(0, 4 * 7 * 12 - 1)).find("workspace") != std::string::npos);
    in.log_sums = in.log_sums.rows(0, 6);
    CHECK(message(in, attention.options, whole).find("log_sums") != std::string::npos);
    in = attention.forward();
    auto options = attention.options;
    options.shape.bias_reach = 2;
    CHECK(message(in, options, whole).find("bias_reach") != std::string::npos);
    options = attention.options;
    options.shape.chunk = 4;
    CHECK(message(in, options, whole).find("chunk") != std::string::npos);
    options = attention.options;
    options.shape.has_rounded_slopes = true;
    CHECK(message(in, options, whole).find("has_rounded_slopes") != std::string::npos);
    options = attention.options;
    options.soft_cap = -1.0F;
    CHECK(message(in, options, whole).find("soft_cap") != std::string::npos);
    options = attention.options;
    options.first_query = 1;
    CHECK(message(in, options, whole).find("first_query") != std::string::npos);
    options = attention.options;
    options.shape.kv_heads = 3;
    CHECK(message(in, options, whole).find("multiple") != std::string::npos);
}
