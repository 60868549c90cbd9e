// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/combine_rows.hpp>
#include <shardwise/kernels/order_experts.hpp>
#include <shardwise/kernels/route.hpp>

#include "test_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace {

/// Whether floats have the same bits, or are both no number.
bool is_same_bits(std::vector<float> const& a, std::vector<float> const& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
        return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y) || (std::isnan(x) && std::isnan(y));
    });
}

/// A router's options and the model that has them.
struct RouterCase {
    std::int64_t experts;
    RouterOptions options;
    bool has_correction = false;
};

std::vector<RouterCase> const router_cases{
    {8, {.experts_per_token = 2, .renormalises = true}},                             // mixtral
    {60, {.experts_per_token = 4}},                                                  // qwen2_moe
    {512, {.experts_per_token = 10, .renormalises = true}},                          // qwen3_next
    {32, {.experts_per_token = 4, .score = RouterScore::softmax_chosen}},            // gpt_oss
    {160, {.experts_per_token = 6, .scale = 16.0F, .groups = 8, .kept_groups = 3}},  // deepseek_v2
    {256,
     {.experts_per_token = 8,
      .score = RouterScore::sigmoid,
      .renormalises = true,
      .scale = 2.5F,
      .groups = 8,
      .kept_groups = 4,
      .group_rank = GroupRank::best_two},
     true},                                                                                   // deepseek_v3
    {16, {.experts_per_token = 2, .score = RouterScore::sparse_mixer, .near_share = 0.02F}},  // phimoe
    {3, {.experts_per_token = 3}},
    {1, {.experts_per_token = 1, .renormalises = true}},
    {1024, {.experts_per_token = 33, .score = RouterScore::softmax_chosen, .groups = 512, .kept_groups = 17}},
};

/// The host's experts and the bits of its weights, for tokens `gap` floats further apart than they are wide.
template <class B>
void check_route_case(Bench<B>& bench, RouterCase const& given, std::int64_t tokens, std::vector<float> const& logits,
                      std::int64_t gap) {
    CAPTURE(given.experts);
    CAPTURE(tokens);
    auto const chosen = given.options.experts_per_token;
    auto correction = numbers(given.has_correction ? given.experts : 0, 402);
    auto const pairs = static_cast<std::size_t>(tokens * (chosen + 1));
    std::vector<std::int32_t> ids(pairs, -7);
    std::vector<float> weights(pairs, -7.0F);
    HostContext host({.threads = 1});
    auto stream = host.make_stream();
    auto const stride = given.experts + gap;
    REQUIRE(route({logits.data(), {tokens, given.experts}, stride}, {correction.data(), {std::ssize(correction)}},
                  {ids.data(), {tokens, chosen}, chosen + 1}, {weights.data(), {tokens, chosen}, chosen + 1},
                  given.options, stream));
    auto const from = bench.send(logits);
    auto const corrections = bench.send(correction);
    auto made_ids = bench.send(std::vector<std::int32_t>(pairs, -7));
    auto made_weights = bench.send(std::vector<float>(pairs, -7.0F));
    REQUIRE(route(TensorView<float const, 2, B>(from.data(), {tokens, given.experts}, stride),
                  TensorView<float const, 1, B>(corrections.view()),
                  TensorView<std::int32_t, 2, B>(made_ids.data(), {tokens, chosen}, chosen + 1),
                  TensorView<float, 2, B>(made_weights.data(), {tokens, chosen}, chosen + 1), given.options,
                  bench.stream()));
    CHECK(bench.fetch(made_ids) == ids);
    CHECK(is_same_bits(bench.fetch(made_weights), weights));
}

/// Experts of tokens, some of which many choose.
std::vector<std::int32_t> some_choices(std::int64_t tokens, std::int64_t chosen, std::int64_t experts) {
    auto const values = numbers(tokens * chosen, 403);
    std::vector<std::int32_t> ids(values.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        auto const part = std::abs(static_cast<double>(values[i]));
        ids[i] = static_cast<std::int32_t>(
            std::min<double>(part * part * static_cast<double>(experts), static_cast<double>(experts - 1)));
    }
    return ids;
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("route chooses the host's experts with the bits of its weights, for each family's router", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& given : router_cases) {
        for (std::int64_t const tokens : {0, 1, 5}) {
            auto logits = numbers(tokens * (given.experts + tokens), 401);
            for (auto& logit : logits) logit *= 6.0F;
            check_route_case(*bench, given, tokens, logits, tokens);
            // Many equals, of both signs of zero.
            for (auto& logit : logits) logit = std::round(logit / 4.0F);
            check_route_case(*bench, given, tokens, logits, tokens);
        }
    }
}

TEST_CASE_TEMPLATE("route: what is no number, infinite or as small as logits get is chosen and weighted as on the host",
                   B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    for (auto const& given : router_cases) {
        auto const width = static_cast<std::size_t>(given.experts);
        auto logits = numbers(6 * given.experts, 404);
        auto const at = [&](std::size_t token, std::size_t expert) -> float& {
            return logits[token * width + expert % width];
        };
        at(0, 5) = std::nanf("");
        at(1, 5) = infinity;
        at(2, 5) = -infinity;
        at(2, 7) = std::nanf("");
        for (std::size_t i = 0; i < width; ++i) {
            at(3, i) = -infinity;
            at(4, i) = -150.0F + static_cast<float>(i % 7);
            at(5, i) = 80.0F - 30.0F * static_cast<float>(i % 7);
        }
        check_route_case(*bench, given, 6, logits, 0);
    }
}

TEST_CASE_TEMPLATE("route refuses what the host refuses", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto logits = bench->send(numbers(2048, 405));
    auto ids = bench->send(std::vector<std::int32_t>(8));
    auto weights = bench->send(std::vector<float>(8));
    auto const refused = [&](std::int64_t experts, std::int64_t chosen, RouterOptions const& options) {
        auto const done = route(TensorView<float const, 2, B>(logits.data(), {1, experts}), {},
                                TensorView<std::int32_t, 2, B>(ids.data(), {1, chosen}),
                                TensorView<float, 2, B>(weights.data(), {1, chosen}), options, bench->stream());
        REQUIRE_FALSE(done);
        return done.error().code();
    };
    CHECK(refused(2, 3, {.experts_per_token = 3}) == ErrorCode::shape_mismatch);
    CHECK(refused(4, 3, {.experts_per_token = 2}) == ErrorCode::shape_mismatch);
    CHECK(refused(4, 2, {.experts_per_token = 2, .groups = 3, .kept_groups = 1}) == ErrorCode::invalid_argument);
    if constexpr (!std::is_same_v<B, Host>) CHECK(refused(1025, 1, {}) == ErrorCode::unsupported);
}

TEST_CASE_TEMPLATE("order_experts puts pairs in the order of experts, then of tokens, both ways", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    struct Shape {
        std::int64_t tokens;
        std::int64_t chosen;
        std::int64_t experts;
    };
    for (auto const& of :
         {Shape{0, 2, 4}, Shape{1, 1, 1}, Shape{1, 8, 128}, Shape{7, 2, 8}, Shape{257, 3, 5}, Shape{400, 4, 33}}) {
        auto const tokens = of.tokens;
        auto const chosen = of.chosen;
        auto const experts = of.experts;
        CAPTURE(tokens);
        CAPTURE(experts);
        auto const ids = some_choices(tokens, chosen, experts);
        std::vector<std::int32_t> tokens_of_rows;
        std::vector<std::int32_t> rows_of_pairs(ids.size());
        std::vector<std::int32_t> first{0};
        for (std::int32_t expert = 0; expert < experts; ++expert) {
            for (std::size_t pair = 0; pair < ids.size(); ++pair) {
                if (ids[pair] != expert) continue;
                rows_of_pairs[pair] = static_cast<std::int32_t>(tokens_of_rows.size());
                tokens_of_rows.push_back(static_cast<std::int32_t>(pair / static_cast<std::size_t>(chosen)));
            }
            first.push_back(static_cast<std::int32_t>(tokens_of_rows.size()));
        }
        auto const sent = bench->send(ids);
        TensorView<std::int32_t const, 2, B> const choices(sent.data(), {tokens, chosen});
        for (auto const by : {RoutingOrder::token_of_row, RoutingOrder::row_of_pair}) {
            auto order = bench->send(std::vector<std::int32_t>(ids.size(), -7));
            auto begins = bench->send(std::vector<std::int32_t>(first.size(), -7));
            REQUIRE(order_experts(choices, by, order.view(), begins.view(), bench->stream()));
            CHECK(bench->fetch(order) == (by == RoutingOrder::token_of_row ? tokens_of_rows : rows_of_pairs));
            CHECK(bench->fetch(begins) == first);
        }
    }
    auto numbers_of = bench->send(std::vector<std::int32_t>(8));
    TensorView<std::int32_t const, 2, B> const choices(numbers_of.data(), {2, 2});
    auto const place = [&](std::int64_t order, std::int64_t first) {
        auto const done = order_experts(choices, RoutingOrder::row_of_pair, numbers_of.view().part(0, order),
                                        numbers_of.view().part(0, first), bench->stream());
        REQUIRE_FALSE(done);
        return std::string(done.error().place());
    };
    CHECK(place(3, 4) == "order");
    CHECK(place(4, 1) == "first");
}

TEST_CASE_TEMPLATE("combine_rows sums each token's rows by their weights, in the order of its experts: the host's bits",
                   B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& shape : row_shapes) {
        for (std::int64_t const chosen : {1, 4}) {
            CAPTURE(shape.width);
            CAPTURE(chosen);
            auto const pairs = shape.rows * chosen;
            TestRows<float> const rows(std::max<std::int64_t>(pairs, 1), shape.width, shape.stride, shape.shift, 411);
            TestRows<float> const out(shape.rows, shape.width, shape.stride, shape.shift, 412);
            TestRows<float> const weights(shape.rows, chosen, chosen + 1, 0, 413);
            std::vector<std::int32_t> places(static_cast<std::size_t>(pairs));
            for (std::int64_t i = 0; i < pairs; ++i)
                places[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(pairs - 1 - i);
            auto from = bench->send(rows.values);
            auto const sent_places = bench->send(places);
            auto sent_weights = bench->send(weights.values);
            auto to = bench->send(out.values);
            REQUIRE(combine_rows(TensorView<float const, 2, B>(rows.view(from)),
                                 TensorView<std::int32_t const, 1, B>(sent_places.view()),
                                 TensorView<float const, 2, B>(weights.view(sent_weights)), out.view(to),
                                 bench->stream()));
            auto const made = out.fetched(*bench, to);
            for (std::int64_t token = 0; token < shape.rows; ++token) {
                for (std::int64_t i = 0; i < shape.width; ++i) {
                    float sum = 0.0F;
                    for (std::int64_t k = 0; k < chosen; ++k) {
                        // Rounded before it is added, which a host's compiler must not undo.
                        float volatile const product = static_cast<float>(weights.at(token, k)) *
                                                       static_cast<float>(rows.at(pairs - 1 - token * chosen - k, i));
                        sum += product;
                    }
                    REQUIRE(made.at(token, i) == static_cast<double>(sum));
                }
            }
        }
    }
    auto memory = bench->send(std::vector<float>(12));
    auto places = bench->send(std::vector<std::int32_t>(4));
    auto const place = [&](std::int64_t width, std::int64_t tokens, std::int64_t pairs) {
        auto const done = combine_rows(TensorView<float const, 2, B>(memory.data(), {2, width}),
                                       TensorView<std::int32_t const, 1, B>(places.data(), {pairs}),
                                       TensorView<float const, 2, B>(memory.data(), {tokens, 2}),
                                       TensorView<float, 2, B>(memory.data(), {2, 3}), bench->stream());
        REQUIRE_FALSE(done);
        return std::string(done.error().place());
    };
    CHECK(place(2, 2, 4) == "rows");
    CHECK(place(3, 1, 2) == "weights");
    CHECK(place(3, 2, 3) == "places");
}

TEST_SUITE_END();
