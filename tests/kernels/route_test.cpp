// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/route.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace shardwise;

namespace {

struct Routed {
    std::vector<std::int32_t> ids;
    std::vector<float> weights;
};

Result<> run(std::vector<float> const& logits, std::int64_t experts, std::vector<float> const& correction,
             RouterOptions const& options, Routed& routed) {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    auto const tokens = static_cast<std::int64_t>(logits.size()) / experts;
    routed.ids.resize(static_cast<std::size_t>(tokens * options.experts_per_token));
    routed.weights.resize(routed.ids.size());
    return route({logits.data(), {tokens, experts}},
                 {correction.data(), {static_cast<std::int64_t>(correction.size())}},
                 {routed.ids.data(), {tokens, options.experts_per_token}},
                 {routed.weights.data(), {tokens, options.experts_per_token}}, options, stream);
}

/// The definition in float64: scores, the order of all experts, the first that are in kept groups.
Routed reference(float const* logits, std::size_t experts, std::vector<float> const& correction,
                 RouterOptions const& options) {
    std::vector<double> scores(logits, logits + experts);
    auto const softmax = [](std::vector<double>& values) {
        auto const largest = *std::max_element(values.begin(), values.end());
        double sum = 0.0;
        for (auto& value : values) sum += value = std::exp(value - largest);
        for (auto& value : values) value /= sum;
    };
    if (options.score == RouterScore::softmax) softmax(scores);
    if (options.score == RouterScore::sigmoid) {
        for (auto& score : scores) score = 1.0 / (1.0 + std::exp(-score));
    }
    auto ranks = scores;
    for (std::size_t i = 0; i < correction.size(); ++i) ranks[i] += static_cast<double>(correction[i]);
    std::vector<bool> is_open(experts, true);
    if (options.groups > 0) {
        auto const width = experts / static_cast<std::size_t>(options.groups);
        std::vector<std::pair<double, std::size_t>> groups;
        for (std::size_t group = 0; group < static_cast<std::size_t>(options.groups); ++group) {
            std::vector<double> members(ranks.begin() + static_cast<std::ptrdiff_t>(group * width),
                                        ranks.begin() + static_cast<std::ptrdiff_t>((group + 1) * width));
            std::sort(members.rbegin(), members.rend());
            groups.emplace_back(-(options.group_rank == GroupRank::best_two ? members[0] + members[1] : members[0]),
                                group);
        }
        std::sort(groups.begin(), groups.end());
        is_open.assign(experts, false);
        for (std::size_t k = 0; k < static_cast<std::size_t>(options.kept_groups); ++k) {
            for (std::size_t i = 0; i < width; ++i) is_open[groups[k].second * width + i] = true;
        }
    }
    std::vector<std::size_t> order(experts);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return ranks[a] > ranks[b]; });
    std::erase_if(order, [&](std::size_t expert) { return !is_open[expert]; });
    order.resize(static_cast<std::size_t>(options.experts_per_token));
    std::vector<double> weights;
    for (auto const expert : order) weights.push_back(scores[expert]);
    if (options.score == RouterScore::softmax_chosen) softmax(weights);
    auto const sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    Routed routed;
    for (std::size_t i = 0; i < order.size(); ++i) {
        routed.ids.push_back(static_cast<std::int32_t>(order[i]));
        routed.weights.push_back(
            static_cast<float>(weights[i] * static_cast<double>(options.scale) / (options.renormalises ? sum : 1.0)));
    }
    return routed;
}

}  // namespace

TEST_CASE("route: chooses and weights experts as each family's definition says") {
    struct Case {
        std::int64_t experts;
        RouterOptions options;
        bool has_correction = false;
    };
    Case const cases[] = {
        {8, {.experts_per_token = 2, .renormalises = true}},                             // mixtral
        {60, {.experts_per_token = 4}},                                                  // qwen2_moe
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
         true},  // deepseek_v3
        {3, {.experts_per_token = 3}},
        {1, {.experts_per_token = 1, .renormalises = true}},
    };
    std::mt19937 random(5);
    std::normal_distribution<float> values(0.0F, 2.0F);
    for (auto const& [experts, options, has_correction] : cases) {
        constexpr std::size_t tokens = 50;
        auto const width = static_cast<std::size_t>(experts);
        std::vector<float> logits(tokens * width);
        for (auto& value : logits) value = values(random);
        std::vector<float> correction(has_correction ? width : 0);
        for (auto& value : correction) value = 0.2F * values(random);
        Routed routed;
        REQUIRE(run(logits, experts, correction, options, routed));
        auto const chosen = static_cast<std::size_t>(options.experts_per_token);
        for (std::size_t token = 0; token < tokens; ++token) {
            auto const expected = reference(logits.data() + token * width, width, correction, options);
            for (std::size_t i = 0; i < chosen; ++i) {
                CHECK(routed.ids[token * chosen + i] == expected.ids[i]);
                // Logits up to 8: exp of them, a sum over the experts, a quotient or two.
                CHECK(routed.weights[token * chosen + i] ==
                      doctest::Approx(expected.weights[i]).epsilon(0x1p-24 * (20.0 + static_cast<double>(experts))));
            }
        }
    }
}

TEST_CASE("route: sigmoids that are all zero have weights of zero, small ones those of transformers") {
    RouterOptions const options{
        .experts_per_token = 2, .score = RouterScore::sigmoid, .renormalises = true, .scale = 2.5F};
    Routed routed;
    REQUIRE(run({-200.0F, -190.0F, -300.0F, -46.0F, -47.0F, -60.0F}, 3, {}, options, routed));
    CHECK(routed.weights[0] == 0.0F);
    CHECK(routed.weights[1] == 0.0F);
    // DeepseekV3TopkRouter of torch 2.9.1 in float64: w / (sum(w) + 1e-20) * 2.5.
    CHECK(routed.weights[2] == doctest::Approx(1.0787526625077712).epsilon(1e-6));
    CHECK(routed.weights[3] == doctest::Approx(0.3968509266455643).epsilon(1e-6));
}

// transformers 4.57 models/phimoe/modeling_phimoe.py, sparsemixer with a jitter_eps of 0.05.
TEST_CASE("route: the sparse mixer weighs each choice among the logits that come near it and are left") {
    Routed routed;
    RouterOptions const options{.experts_per_token = 2, .score = RouterScore::sparse_mixer, .near_share = 0.1F};
    REQUIRE(run({2.0F, 1.9F, 1.0F, -1.0F}, 4, {}, options, routed));
    CHECK(routed.ids == std::vector<std::int32_t>{0, 1});
    CHECK(routed.weights[0] == doctest::Approx(1.0 / (1.0 + std::exp(-0.1))));
    CHECK(routed.weights[1] == 1.0F);
}

TEST_CASE("route: of equal scores the lower number is chosen") {
    Routed routed;
    REQUIRE(run({1.0F, 3.0F, 3.0F, 3.0F}, 4, {}, {.experts_per_token = 2}, routed));
    CHECK(routed.ids == std::vector<std::int32_t>{1, 2});
}

TEST_CASE("route: a logit that is no number is chosen first, and its weight tells") {
    std::vector<float> const logits{3.0F, 2.0F, 1.0F, NAN, 0.0F, 5.0F};
    for (auto const score : {RouterScore::softmax, RouterScore::sigmoid, RouterScore::softmax_chosen}) {
        for (std::int64_t const groups : {0, 3}) {
            for (auto const rank : {GroupRank::best, GroupRank::best_two}) {
                RouterOptions const options{.experts_per_token = 2,
                                            .score = score,
                                            .groups = groups,
                                            .kept_groups = groups > 0 ? 1 : 0,
                                            .group_rank = rank};
                Routed routed;
                REQUIRE(run(logits, 6, {}, options, routed));
                CHECK(std::isnan(routed.weights[0]));
                // A softmax over all has no other number.
                if (score != RouterScore::softmax) CHECK(routed.ids[0] == 3);
            }
        }
    }
}

TEST_CASE("route: more experts than there are, and groups that do not hold them, are refused") {
    Routed routed;
    CHECK(run({1.0F, 2.0F}, 2, {}, {.experts_per_token = 3}, routed).error().code() == ErrorCode::shape_mismatch);
    CHECK(run({1.0F, 2.0F}, 2, {1.0F}, {.experts_per_token = 1}, routed).error().code() == ErrorCode::shape_mismatch);
    // Of ids and weights the one that does not fit is named.
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    std::vector<float> const logits{1.0F, 2.0F};
    std::vector<std::int32_t> ids(2);
    std::vector<float> weights(6);
    CHECK(route({logits.data(), {1, 2}}, {}, {ids.data(), {1, 2}}, {weights.data(), {3, 2}}, {.experts_per_token = 2},
                stream)
              .error()
              .message() == "route: ids and weights do not have a row per token (got 3, expected 1)");
    CHECK(route({logits.data(), {1, 2}}, {}, {ids.data(), {1, 2}}, {weights.data(), {1, 6}}, {.experts_per_token = 2},
                stream)
              .error()
              .message() == "route: ids and weights do not have a column per chosen expert (got 6, expected 2)");
    auto const refused = [&](std::int64_t groups, std::int64_t kept) {
        RouterOptions const options{.experts_per_token = 3, .groups = groups, .kept_groups = kept};
        auto const done = run({1.0F, 2.0F, 3.0F, 4.0F}, 4, {}, options, routed);
        if (done) return std::string{};
        CHECK(done.error().code() == ErrorCode::invalid_argument);
        return std::string(done.error().message());
    };
    CHECK(refused(3, 1) == "route: groups: do not divide the experts (got 3, expected a divisor of 4)");
    CHECK(refused(-2, 1) == "route: groups: do not divide the experts (got -2, expected a divisor of 4)");
    CHECK(refused(2, 0) == "route: kept_groups: must be of the groups, and at least 1 (got 0, expected 1 to 2)");
    CHECK(refused(2, 3) == "route: kept_groups: must be of the groups, and at least 1 (got 3, expected 1 to 2)");
    CHECK(refused(4, 2) == "route: kept_groups: hold fewer experts than each token is to have (got 2, expected at least 3)");
    CHECK(refused(4, 3).empty());
}
