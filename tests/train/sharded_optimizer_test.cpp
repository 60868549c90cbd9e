// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/gradient_tree.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/sharded_optimizer.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "ranks.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t sizes[] = {5000, 300, 0, 7};
std::string const names[] = {"a.weight", "b.weight", "empty.weight", "b.bias"};

Deadline soon() {
    return Deadline::after(std::chrono::seconds(20));
}

/// The weights after three steps on some ranks, with whole gradients or with shares of them.
template <class Rule>
std::vector<std::vector<std::vector<float>>> trained(Rule const& rule, std::int32_t ranks, bool gives_shares) {
    return on_threads(ranks, [&](Threads& comm) {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        std::vector<std::vector<float>> weights;
        for (std::int64_t i = 0; i < 4; ++i) weights.push_back(input_numbers(31 * i, sizes[i]));
        List<OptimizedParameter> parameters;
        for (std::size_t i = 0; i < 4; ++i)
            parameters.push_back({names[i], {weights[i].data(), {sizes[i]}}, decays_weight(names[i], i == 3 ? 1 : 2)});
        TensorPlace const place{ranks, comm.rank()};
        auto optimizer = ShardedOptimizer<Rule>::create(context, rule, parameters, place);
        REQUIRE(optimizer);
        CHECK(context.memory().current() == ShardedOptimizer<Rule>::state_bytes(rule, parameters, place));
        for (int step = 1; step <= 3; ++step) {
            std::vector<std::vector<float>> gradients;
            List<TensorView<float const, 1, Host>> views;
            for (std::int64_t i = 0; i < 4; ++i) gradients.push_back(input_numbers(1000 * step + i, sizes[i]));
            for (std::size_t i = 0; i < 4; ++i) {
                TensorView<float const, 1, Host> const whole{gradients[i].data(), {sizes[i]}};
                auto const share = optimizer->share(i);
                views.push_back(gives_shares ? whole.part(share.begin, share.size()) : whole);
            }
            REQUIRE(optimizer->step({.number = step, .learning_rate = 0.01}, views, stream));
            REQUIRE(optimizer->gather(comm, stream));
            REQUIRE(stream.synchronize(soon()));
        }
        return weights;
    });
}

}  // namespace

TEST_CASE("ShardedOptimizer: shares on any ranks leave the weights of one rank, bit for bit") {
    auto const check = [](auto const& rule) {
        auto const expected = trained(rule, 1, false)[0];
        CHECK(expected[0] != input_numbers(0, 5000));
        for (std::int32_t const ranks : {1, 2, 3, 5}) {
            for (bool const gives_shares : {false, true}) {
                for (auto const& weights : trained(rule, ranks, gives_shares)) CHECK(weights == expected);
            }
        }
    };
    check(AdamW{});
    check(Sgd{});
    check(Adam8bit{});
}

TEST_CASE("ShardedOptimizer: state is that of the shares, and goes on from where it was read") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto weights = input_numbers(0, 5000);
    auto copied = weights;
    auto const gradient = input_numbers(9, 5000);
    List<TensorView<float const, 1, Host>> const gradients{{gradient.data(), {5000}}};
    auto made = ShardedOptimizer<Adam8bit>::create(context, {}, {{"w", {weights.data(), {5000}}, true}});
    REQUIRE(made->step({.number = 1}, gradients, stream));
    auto resumed = ShardedOptimizer<Adam8bit>::create(context, {}, {{"w", {copied.data(), {5000}}, true}});
    copied = weights;
    CHECK(made->state(0).count == 4);
    CHECK(made->state(0).arrays[2].name == "exp_avg_absmax");
    CHECK(made->state(0).arrays[2].elements == 20);
    for (std::size_t array = 0; array < made->state(0).count; ++array) {
        auto const from = made->state_memory(0, array);
        std::copy(from.begin(), from.end(), resumed->state_memory(0, array).begin());
    }
    for (auto* one : {&*made, &*resumed}) REQUIRE(one->step({.number = 2}, gradients, stream));
    CHECK(copied == weights);
}

TEST_CASE("ShardedOptimizer: refuses what does not fit together, and changes nothing then") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto weights = input_numbers(0, 600);
    auto const before = weights;
    List<OptimizedParameter> const parameters{{"w", {weights.data(), {300}}, true},
                                              {"v", {weights.data() + 300, {300}}, true}};
    CHECK_FALSE(ShardedOptimizer<AdamW>::create(context, {.beta1 = 2.0}, parameters));
    CHECK_FALSE(ShardedOptimizer<AdamW>::create(context, {}, parameters, {2, 2}));
    CHECK_FALSE(ShardedOptimizer<AdamW>::create(context, {}, {{"w", {nullptr, {3}}, true}}));
    auto made = ShardedOptimizer<AdamW>::create(context, {}, parameters, {2, 1});
    auto const gradient = input_numbers(9, 300);
    using Views = List<TensorView<float const, 1, Host>>;
    CHECK_FALSE(made->step({}, Views{{gradient.data(), {300}}}, stream));
    CHECK(made->step({}, Views{{gradient.data(), {300}}, {gradient.data(), {299}}}, stream).error().message() ==
          "adamw: v: the gradient is neither that of the parameter nor of the share (got 299, expected 44)");
    CHECK_FALSE(made->step({}, Views{{gradient.data(), {300}}, {nullptr, {300}}}, stream));
    CHECK(weights == before);
    (void)on_threads(1, [&](Threads& comm) {
        CHECK(made->gather(comm, stream).error().code() == ErrorCode::invalid_argument);
        return 0;
    });
}
