// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "training_ways.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("Trainer: fast sums are near those of the tree on any ranks, in the predicted memory and traffic") {
    WaySample sample;
    CurveData const data;
    TemporaryFolder const folder;
    for (auto const* const name : {"llama_tied", "gpt2"}) {
        CAPTURE(name);
        auto const config = golden_config(name);
        Sgd const rule{.momentum = 0.9};
        auto const tree = train(config, data, 5, rule, {.dropout = 0.1});
        for (auto way :
             {Way{}, Way{.ranks = 2}, Way{.ranks = 3, .zero = ZeroStage::optimizer},
              Way{.ranks = 2, .zero = ZeroStage::gradients}, Way{.ranks = 2, .zero = ZeroStage::weights},
              Way{.ranks = 4, .zero = ZeroStage::gradients, .tp = 2}, Way{.ranks = 4, .pp = 2},
              Way{.ranks = 2, .pp = 2, .pipeline = PipelineKind::gpipe},
              Way{.ranks = 4, .pp = 2, .pipeline = PipelineKind::zero_bubble},
              Way{.ranks = 2, .zero = ZeroStage::gradients, .offload_folder = folder.path(), .offloads_all = true}}) {
            CAPTURE(way.ranks);
            CAPTURE(static_cast<int>(way.zero));
            way.dropout = 0.1;
            way.is_fast = true;
            auto const fast = train(config, data, 5, rule, way);
            REQUIRE(fast.steps.size() == tree.steps.size());
            // It is no tree's sum.
            CHECK_FALSE(fast == tree);
            for (std::size_t i = 0; i < tree.steps.size(); ++i) {
                CHECK(fast.steps[i].loss == doctest::Approx(tree.steps[i].loss).epsilon(1e-6));
                CHECK(fast.steps[i].norm == doctest::Approx(tree.steps[i].norm).epsilon(1e-5));
            }
            float most = 0.0F;
            for (std::size_t i = 0; i < tree.weights.size(); ++i)
                most = std::max(most, std::abs(fast.weights[i] - tree.weights[i]));
            CHECK(most < 1e-6F);
            // Micro-batches, threads and what is computed again change nothing.
            way.micro_batch = 2;
            way.threads = 2;
            way.recompute = Recompute::full;
            sample.check(fast, config, data, 5, rule, way);
        }
    }
}

TEST_CASE("Trainer: fast sums take one vector of gradients, and one exchange a step at any ZeRO stage") {
    auto const config = golden_config("llama");
    TrainedModel const own(config);
    BatchOptions const batch{.context = golden_context, .batch = 16};
    auto const take = [&](ZeroStage zero, bool is_fast, std::int64_t ranks) {
        TrainOptions const options{.steps = 1, .zero = zero, .is_fast = is_fast};
        auto const bytes = Trainer<AdamW>::bytes(own.program, AdamW{}, batch, options, {ranks, 0});
        REQUIRE(bytes);
        return std::pair{bytes->count(), Trainer<AdamW>::traffic(own.program, batch, options, {ranks, 0}).bytes};
    };
    auto const vector = own.program.layout().gradient_elements() * std::int64_t{sizeof(float)};
    // Of 16 leaves, a tree holds up to five sums.
    CHECK(take(ZeroStage::none, true, 1).first <= take(ZeroStage::none, false, 1).first - 4 * vector);
    auto const fast = take(ZeroStage::gradients, true, 2);
    CHECK(fast.second < take(ZeroStage::gradients, false, 2).second / 4);
    // A norm is one number in place of two and another one.
    CHECK(take(ZeroStage::none, true, 2).second == take(ZeroStage::none, false, 2).second - 12);
    CHECK(fast.second == take(ZeroStage::none, true, 2).second);
}

TEST_CASE(
    "Trainer: buckets of any size give the bits of one rank, in the predicted memory and traffic; all but the last are "
    "exchanged before the backward pass ends") {
    WaySample sample;
    CurveData const data;
    for (auto const* const name : {"llama_tied", "gpt2"}) {
        CAPTURE(name);
        auto const config = golden_config(name);
        auto const expected = train(config, data, 5, AdamW{}, {});
        for (std::int64_t const bytes : {1, 3000}) {
            CAPTURE(bytes);
            for (auto way : {Way{.ranks = 2}, Way{.ranks = 3, .zero = ZeroStage::optimizer, .micro_batch = 2},
                             Way{.ranks = 5, .threads = 2}, Way{.ranks = 2, .zero = ZeroStage::gradients},
                             Way{.ranks = 3, .zero = ZeroStage::gradients, .micro_batch = 2, .threads = 2},
                             Way{.ranks = 2, .zero = ZeroStage::weights}}) {
                way.bucket_bytes = bytes;
                CAPTURE(way.ranks);
                sample.check(expected, config, data, 5, AdamW{}, way);
            }
        }
    }
    auto const config = golden_config("llama_tied");
    Way fast{.ranks = 2, .zero = ZeroStage::gradients, .is_fast = true};
    auto const summed = train(config, data, 5, AdamW{}, fast);
    fast.bucket_bytes = 2000;
    CHECK(train(config, data, 5, AdamW{}, fast) == summed);
    auto const dropped = train(config, data, 5, AdamW{}, {.dropout = 0.1});
    for (auto way : {Way{.ranks = 4, .micro_batch = 2, .recompute = Recompute::full, .dropout = 0.1, .tp = 2},
                     Way{.ranks = 4, .zero = ZeroStage::optimizer, .dropout = 0.1, .tp = 2},
                     Way{.ranks = 4, .zero = ZeroStage::gradients, .dropout = 0.1, .tp = 2},
                     Way{.ranks = 4, .dropout = 0.1, .pp = 2},
                     Way{.ranks = 4, .micro_batch = 2, .dropout = 0.1, .pp = 2, .pipeline = PipelineKind::gpipe},
                     Way{.ranks = 6, .zero = ZeroStage::gradients, .dropout = 0.1, .pp = 2}}) {
        way.bucket_bytes = 2000;
        sample.check(dropped, config, data, 5, AdamW{}, way);
    }
}

TEST_CASE("Trainer: passes that are measured change nothing") {
    WaySample sample;
    CurveData const data;
    auto const config = golden_config("llama_tied");
    auto const expected = train(config, data, 5, AdamW{}, {.dropout = 0.1, .precision = Dtype::f16});
    for (auto way : {Way{.ranks = 1, .micro_batch = 2}, Way{.ranks = 2, .bucket_bytes = 2000},
                     Way{.ranks = 3, .zero = ZeroStage::gradients}, Way{.ranks = 2, .zero = ZeroStage::weights},
                     Way{.ranks = 4, .tp = 2, .pp = 2}}) {
        way.dropout = 0.1;
        way.precision = Dtype::f16;
        way.is_measured = true;
        sample.check(expected, config, data, 5, AdamW{}, way);
    }
}
