// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/gradient_tree.hpp>
#include <shardwise/train/schedule.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/sharded_optimizer.hpp>
#include <shardwise/train/token_mean.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "ranks.hpp"
#include "temporary_folder.hpp"

#include <cmath>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t vocabulary = 80;
constexpr std::int64_t context_tokens = 6;
constexpr std::int64_t batch = 7;

struct Run {
    std::vector<double> losses;
    std::vector<double> norms;
    std::vector<float> weights;

    friend bool operator==(Run const&, Run const&) = default;
};

/// A model of pairs: the logits of the next token are a row of a matrix. Returns the loss of a sequence's tokens and adds to the
/// gradient, which is of the sum of losses times `scale`.
void train_sequence(std::int32_t const* tokens, std::int32_t const* targets, std::vector<float> const& weights,
                    float scale, TokenMean& loss, float* gradient) {
    for (std::int64_t t = 0; t < context_tokens; ++t) {
        auto const* const logits = weights.data() + tokens[t] * vocabulary;
        double sum = 0.0;
        for (std::int64_t v = 0; v < vocabulary; ++v) sum += std::exp(static_cast<double>(logits[v]));
        loss.add(static_cast<float>(std::log(sum) - static_cast<double>(logits[targets[t]])));
        for (std::int64_t v = 0; v < vocabulary; ++v) {
            auto const share = std::exp(static_cast<double>(logits[v])) / sum - (v == targets[t] ? 1.0 : 0.0);
            gradient[tokens[t] * vocabulary + v] += static_cast<float>(share) * scale;
        }
    }
}

template <class Rule>
Run run_on(std::int32_t ranks, Rule const& rule, TokenDataset const& dataset, double learning_rate) {
    auto const runs = on_threads(ranks, [&](Threads& comm) {
        HostContext context({.threads = 1 + comm.rank()});
        auto stream = context.make_stream();
        auto const soon = [] { return Deadline::after(std::chrono::seconds(20)); };
        TensorPlace const place{ranks, comm.rank()};
        auto batches =
            Batches::create(dataset, {0, dataset.tokens()}, {.context = context_tokens, .batch = batch, .seed = 4});
        Run run;
        run.weights = input_numbers(0, vocabulary * vocabulary);
        auto const elements = static_cast<std::int64_t>(run.weights.size());
        auto tree = GradientTree::create(context, elements, batch, place, TreeResult::share);
        auto optimizer =
            ShardedOptimizer<Rule>::create(context, rule, {{"pairs", {run.weights.data(), {elements}}}}, place);
        Schedule const schedule{.learning_rate = learning_rate, .warm_up = 2, .total = 12, .floor = 0.1};
        for (std::int64_t step = 0; step < 12; ++step) {
            auto const own = tree->range();
            std::vector<std::int32_t> tokens(static_cast<std::size_t>(own.size() * context_tokens));
            auto targets = tokens;
            REQUIRE(batches->read(step * batch, own, {tokens.data(), {own.size(), context_tokens}},
                                  {targets.data(), {own.size(), context_tokens}}));
            TokenMean loss;
            for (std::int64_t leaf = 0; leaf < own.size(); ++leaf) {
                auto const gradient = *tree->leaf();
                std::fill_n(gradient.data(), elements, 0.0F);
                auto const* const at = tokens.data() + leaf * context_tokens;
                train_sequence(at, targets.data() + leaf * context_tokens, run.weights, 1.0F / (batch * context_tokens),
                               loss, gradient.data());
                REQUIRE(tree->add(stream));
            }
            REQUIRE(loss.sum_over_ranks(comm));
            auto const gradient = tree->sum(comm, stream);
            REQUIRE(gradient);
            List<TensorView<float const, 1, Host>> const gradients{*gradient};
            auto const norm = global_norm(comm, gradients, stream, soon());
            REQUIRE(norm);
            auto const coefficient = clip_coefficient(*norm, 0.1);
            OptimizerStep const update{
                .number = step + 1, .learning_rate = schedule.at(step), .gradient_factor = *coefficient};
            REQUIRE(optimizer->step(update, gradients, stream));
            REQUIRE(optimizer->gather(comm, stream));
            REQUIRE(stream.synchronize(soon()));
            run.losses.push_back(loss.mean());
            run.norms.push_back(*norm);
        }
        return run;
    });
    for (auto const& run : runs) CHECK(run == runs[0]);
    return runs[0];
}

}  // namespace

TEST_CASE("A loop of these parts gives the same bits on any ranks, with any threads, for every optimizer") {
    TemporaryFolder const folder;
    std::string text;
    for (int i = 0; i < 400; ++i) text += {static_cast<char>(i * i % 79), '\0'};
    std::vector<TokenFile> files;
    files.push_back(std::move(*TokenFile::open(folder.write("a.u16", text))));
    auto const dataset = TokenDataset::create(std::move(files), vocabulary);
    REQUIRE(dataset);
    auto const check = [&](auto const& rule, double rate) {
        auto const expected = run_on(1, rule, *dataset, rate);
        CHECK(expected.losses.back() < expected.losses.front() - 0.05);
        CHECK(expected.norms[0] > 0.1);
        for (std::int32_t const ranks : {2, 3, 4, 7}) CHECK(run_on(ranks, rule, *dataset, rate) == expected);
    };
    check(AdamW{}, 0.05);
    check(Adam8bit{}, 0.05);
    check(Sgd{.momentum = 0.9, .is_nesterov = true}, 2.0);
}
