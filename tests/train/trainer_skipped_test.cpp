// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"
#include "ranks.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

TrainOptions options_of(std::int64_t steps, ZeroStage zero = ZeroStage::none) {
    return {.steps = steps, .schedule = {.learning_rate = 3e-3, .total = steps, .floor = 0.1}, .zero = zero};
}

/// Tokens of which the last word of the vocabulary stands in some sequences alone.
std::vector<std::int32_t> tokens_with_last_in(std::vector<std::int64_t> const& sequences) {
    auto ids = golden_tokens(CurveData::size);
    for (auto& id : ids) id = std::min(id, 95);
    for (auto const sequence : sequences) ids[static_cast<std::size_t>(sequence * golden_context + 3)] = 96;
    return ids;
}

/// Makes what a model knows of the last word undefined, on the ranks that have it.
void spoil_last_word(TrainingWeights& weights) {
    auto const embedding = weights.layout().find("model.embed_tokens.weight");
    if (!embedding) return;
    auto const& parameter = weights.layout().parameters()[embedding->parameter];
    auto const last = weights.model().config.vocab_size * weights.model().config.hidden_size - 1;
    auto const held = weights.shares()[embedding->parameter].own;
    auto const values = weights.values(embedding->parameter);
    parameter.for_each_run(held, [&](std::int64_t at, std::int64_t own, std::int64_t count) {
        if (last < at || last >= at + count) return;
        values.data()[own - held.begin + last - at] = std::numeric_limits<float>::quiet_NaN();
    });
}
void spoil_last_word(TrainedModel& model) {
    spoil_last_word(model.weights);
}

}  // namespace

TEST_CASE(
    "Trainer: in fp16 a step without a gradient that is a number halves the loss scale on all ranks, also after a "
    "restart") {
    CurveData const data(97, tokens_with_last_in({6}));
    auto options = options_of(4);
    options.precision = Dtype::f16;
    std::vector<TrainedStep> expected;
    for (std::int32_t const ranks : {1, 3}) {
        TrainedModel model(golden_config("llama"));
        spoil_last_word(model);
        auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
            std::vector<TrainedStep> steps;
            for (std::int64_t i = 0; i < 4; ++i) {
                auto const step = trainer.step(stream);
                if (!step) return step.error();
                steps.push_back(**step);
                auto const state = trainer.state();
                CHECK(state.loss_scale == (i < 1 ? 65536.0 : 32768.0));
                CHECK(state.good_steps == (i < 2 ? 1 - i : i - 1));
                if (auto const restored = trainer.restore(state); !restored) return restored;
            }
            CHECK(steps[1].is_skipped());
            if (trainer.comm().rank() > 0) return {};
            // Which rank has the sequence differs.
            steps[1].skipped.clear();
            if (expected.empty()) expected = steps;
            CHECK(steps == expected);
            auto none = trainer.state();
            none.loss_scale = 0.0;
            if (trainer.comm().size() == 1) CHECK_FALSE(trainer.restore(none));
            return {};
        };
        REQUIRE(
            train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options, ranks, body));
    }
    options.precision = Dtype::f8_e4m3;
    CHECK_FALSE(options.check());
}

TEST_CASE(
    "Trainer: a gradient that is no number is named with its rank, parameter and bucket; all ranks skip that step") {
    // Sequence 2 of step 1: of two ranks the second has it, of four the third, in turns of two the first.
    CurveData const data(97, tokens_with_last_in({6}));
    struct Case {
        std::int32_t ranks;
        ZeroStage zero;
        std::string rank;
    };
    std::vector<float> expected;
    std::vector<double> losses;
    for (auto const& each :
         {Case{1, ZeroStage::none, "rank 0"}, Case{2, ZeroStage::none, "rank 1, bucket 0"},
          Case{2, ZeroStage::optimizer, "rank 1, bucket 0"}, Case{2, ZeroStage::gradients, "rank 0, bucket 0"},
          Case{4, ZeroStage::optimizer, "rank 2, bucket 0"}, Case{4, ZeroStage::gradients, "rank 2, bucket 0"}}) {
        CAPTURE(each.ranks);
        TrainedModel model(golden_config("llama"));
        spoil_last_word(model);
        std::mutex mutex;
        std::vector<std::vector<TrainedStep>> all;
        auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
            auto const steps = trainer.run(stream);
            if (!steps) return steps.error();
            CHECK(trainer.state() == TrainerPosition{4, {1}});
            std::lock_guard const lock(mutex);
            all.push_back(*steps);
            return {};
        };
        REQUIRE(train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(),
                            options_of(4, each.zero), each.ranks, body));
        for (auto const& steps : all) CHECK(steps == all[0]);
        REQUIRE(all.front().size() == 4);
        auto const& skipped = all.front()[1];
        CHECK(skipped.skipped ==
              each.rank +
                  ", step 2: lm_head.weight: the gradient of element 0 is infinite or undefined; lower the learning "
                  "rate or the loss scale, or look for a broken machine if it is always this rank");
        CHECK(std::isnan(skipped.loss));
        std::vector<float> weights(model.weights.data(),
                                   model.weights.data() + model.program.layout().weight_elements());
        // The undefined word itself stays as it is but for the decay.
        for (auto& value : weights) value = std::isnan(value) ? 0.0F : value;
        std::vector<double> now;
        for (auto const& step : all.front()) now.push_back(step.is_skipped() ? 0.0 : step.loss);
        if (expected.empty()) {
            expected = weights;
            losses = now;
        }
        CHECK(weights == expected);
        CHECK(now == losses);
        CHECK(all.front()[3].loss > 0.0);
    }
}

TEST_CASE("Trainer: a gradient that is no number is named over tensor-parallel ranks, stages and shared weights, too") {
    CurveData const data(97, tokens_with_last_in({6}));
    TrainedModel const base(golden_config("llama"));
    struct Case {
        std::int32_t ranks;
        std::int32_t tp = 1;
        std::int32_t pp = 1;
        ZeroStage zero = ZeroStage::none;
    };
    std::vector<TrainedStep> expected;
    for (auto const& each : {Case{1}, Case{2, 2}, Case{4, 2, 1, ZeroStage::optimizer}, Case{2, 1, 2}, Case{4, 2, 2},
                             Case{2, 1, 1, ZeroStage::weights}, Case{3, 1, 1, ZeroStage::weights}}) {
        CAPTURE(each.ranks);
        CAPTURE(each.tp);
        CAPTURE(each.pp);
        auto options = options_of(4, each.zero);
        options.tp = each.tp;
        options.pp = each.pp;
        HostContext context({.threads = 1});
        std::mutex mutex;
        std::vector<std::vector<TrainedStep>> all;
        auto const weights = [&](HostContext& own, TrainingPlace const& place, WeightStorage const& storage) {
            auto made = TrainingWeights::initialise(own, base.model(), {.seed = 3}, place, storage);
            if (made) spoil_last_word(*made);
            return made;
        };
        auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
            auto const steps = trainer.run(stream);
            if (!steps) return steps.error();
            std::lock_guard const lock(mutex);
            all.push_back(*steps);
            return {};
        };
        auto const ran =
            train_ranks(context, base.model(), weights, AdamW{}, data.batches(), options, each.ranks, body);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        for (auto const& steps : all) CHECK(steps == all[0]);
        auto& steps = all[0];
        REQUIRE(steps.size() == 4);
        auto& text = steps[1].skipped;
        CAPTURE(text);
        CHECK(text.starts_with("rank "));
        CHECK(text.find(", step 2: ") != std::string::npos);
        CHECK(text.find("is infinite or undefined") != std::string::npos);
        // Stages have other parameters each.
        CHECK((each.pp > 1 || text.find(": lm_head.weight: the gradient of element 0 ") != std::string::npos));
        text = "skipped";
        if (expected.empty()) expected = steps;
        CHECK(steps == expected);
    }
}

TEST_CASE(
    "Trainer: as many steps in a row as are allowed without a gradient end the run on all ranks, naming the last") {
    CurveData const data(97, tokens_with_last_in({1, 5, 9, 13}));
    TrainedModel model(golden_config("llama"));
    spoil_last_word(model);
    auto options = options_of(20);
    options.max_skipped = 2;
    std::int64_t taken = 0;
    auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
        auto const steps = trainer.run(stream, [&](TrainedStep const& step) -> Result<> {
            if (trainer.comm().rank() == 0) taken = step.number + 1;
            return {};
        });
        return steps ? Result<>{} : Result<>{steps.error()};
    };
    auto const done =
        train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options, 2, body);
    REQUIRE_FALSE(done);
    CHECK(taken == 1);
    CHECK(done.error().message() ==
          "rank 0, bucket 0, step 2: lm_head.weight: the gradient of element 0 is infinite or undefined; 2 steps in a "
          "row were "
          "skipped; lower the learning rate or the loss scale, or look for a broken machine if it is always this rank");
    // A run that goes on remembers how many there were.
    auto trained = TrainedModel(golden_config("llama"));
    spoil_last_word(trained);
    auto const resumed = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
        if (auto const restored = trainer.restore({1, {0}}); !restored) return restored;
        CHECK_FALSE(trainer.restore({2, {1, 1}}));
        CHECK_FALSE(trainer.restore({2, {2}}));
        CHECK_FALSE(trainer.restore({-1, {}}));
        auto const step = trainer.step(stream);
        return step ? Result<>{} : Result<>{step.error()};
    };
    auto const again =
        train_ranks(trained.context, trained.program, trained.weights, AdamW{}, data.batches(), options, 1, resumed);
    REQUIRE_FALSE(again);
    // One rank has no buckets.
    auto without = std::string(done.error().message());
    without.erase(without.find(", bucket 0"), 10);
    CHECK(again.error().message() == without);
}

TEST_CASE("Trainer: a batch without a token that counts is a skipped step") {
    std::string counts(CurveData::size, '\1');
    std::fill_n(counts.begin(), 4 * golden_context + 1, '\0');
    CurveData const data(97, golden_tokens(CurveData::size), counts);
    TrainedModel model(golden_config("llama_tied"));
    auto const steps =
        train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options_of(2), 2);
    REQUIRE(steps);
    CHECK(steps->front().skipped == "step 1: batch: has no token whose loss counts");
    CHECK_FALSE(steps->back().is_skipped());
}
