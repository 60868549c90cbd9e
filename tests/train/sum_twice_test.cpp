// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// How ranks train, and which of them has a flipped bit.
struct Case {
    std::int32_t ranks = 1;
    std::int32_t tp = 1;
    std::int32_t pp = 1;
    ZeroStage zero = ZeroStage::none;
    bool is_fast = false;
    std::int32_t flipped = 0;
};

/// Four steps, of which each is checked, or none. A bit of a number flips in what the first sequence of a rank gave in step 2, as
/// often as a phase of that step has begun before.
struct FlippedRun {
    std::int64_t check_every = 1;
    std::int64_t begun = 0;
    std::uint32_t bit = 1;
    std::vector<TrainedStep> steps;
    std::string parameter;
    std::int64_t bucket = -1;
    std::int64_t early = 0;

    void train(Case const& how) {
        CurveData const data;
        TrainedModel const base(golden_config("llama_tied"));
        TrainOptions options{.steps = 4,
                             .micro_batch = 1,
                             .schedule = {.learning_rate = 3e-3, .total = 4, .floor = 0.1},
                             .zero = how.zero,
                             .buckets = BucketLimits::with_cap(Bytes{4000}),
                             .is_fast = how.is_fast,
                             .check_every = check_every};
        options.tp = how.tp;
        options.pp = how.pp;
        HostContext context({.threads = 1});
        std::mutex mutex;
        std::vector<std::vector<TrainedStep>> all;
        auto const weights = [&](HostContext& own, TrainingPlace const& place, WeightStorage const& storage) {
            return TrainingWeights::initialise(own, base.model(), {.seed = 3}, place, storage);
        };
        auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
            auto const& layout = trainer.weights().layout();
            auto const& flipped = layout.parameters()[layout.parameters().size() / 2];
            auto const leaf = const_cast<TrainingGradients&>(trainer.gradients()).leaf();
            if (!leaf) return leaf.error();
            auto& value = leaf->data()[flipped.begin - layout.chunks()[0].begin + 1];
            std::int64_t seen = 0;
            bool const is_flipped = trainer.comm().rank() == how.flipped;
            trainer.phases().on_begin([&](TrainingPhase phase, std::int64_t step) -> Result<> {
                if (is_flipped && step == 1 && phase == TrainingPhase::bucket && seen++ == begun)
                    value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ bit);
                return {};
            });
            auto const done = trainer.run(stream);
            if (!done) return done.error();
            std::lock_guard const lock(mutex);
            all.push_back(*done);
            if (is_flipped) {
                bucket = trainer.gradients().bucket_of(layout.parameters().size() / 2);
                parameter = std::string(layout.whole_name(layout.whole_number(layout.parameters().size() / 2)));
                early = trainer.gradients().early_buckets();
            }
            return {};
        };
        auto const ran = train_ranks(context, base.model(), weights, AdamW{}, data.batches(), options, how.ranks, body);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        for (auto const& each : all) CHECK(each == all[0]);
        REQUIRE(all[0].size() == 4);
        steps = all[0];
    }
};

}  // namespace

TEST_CASE(
    "sum_twice: a flipped bit in one rank's gradient is named with rank, parameter and bucket; all ranks skip it") {
    std::vector<TrainedStep> expected;
    for (auto const& each :
         {Case{1}, Case{2, 1, 1, ZeroStage::none, false, 1}, Case{3, 1, 1, ZeroStage::optimizer, false, 2},
          Case{2, 1, 1, ZeroStage::gradients, false, 0}, Case{2, 1, 1, ZeroStage::weights, false, 1},
          Case{2, 1, 1, ZeroStage::none, true, 1}, Case{2, 2, 1, ZeroStage::none, false, 1},
          Case{2, 1, 2, ZeroStage::none, false, 1}, Case{4, 1, 2, ZeroStage::gradients, false, 3}}) {
        CAPTURE(each.ranks);
        FlippedRun run;
        run.train(each);
        auto& text = run.steps[1].skipped;
        CAPTURE(text);
        auto const data_ranks = each.ranks / each.tp / each.pp;
        // Of several; the head is in the first, and this is none of it.
        CHECK((data_ranks == 1 ? run.bucket == -1 : run.bucket > 0));
        auto const bucket = data_ranks == 1 ? std::string() : ", bucket " + std::to_string(run.bucket);
        CHECK(text == ("rank " + std::to_string(each.flipped) + bucket + ", step 2: " + run.parameter +
                       ": the gradient is another one where it is computed again; look for a broken machine if "
                       "it is always this rank"));
        CHECK(run.early == 0);
        for (std::size_t i : {0U, 2U, 3U}) CHECK_FALSE(run.steps[i].is_skipped());
        text = "skipped";
        if (each.is_fast) continue;
        if (expected.empty()) expected = run.steps;
        CHECK(run.steps == expected);
    }
    // What is not checked is not seen.
    FlippedRun unchecked;
    unchecked.check_every = 3;
    unchecked.train({2, 1, 1, ZeroStage::none, false, 1});
    CHECK(unchecked.early > 0);
    for (auto const& step : unchecked.steps) CHECK_FALSE(step.is_skipped());
}

TEST_CASE("sum_twice: a bit that flips in a sum of gradients is seen, too") {
    struct SumCase {
        Case how;
        std::string told;
    };
    for (auto const& each : {SumCase{{1, 1, 1, ZeroStage::none, false, 0}, "rank 0, step 2: "},
                             SumCase{{2, 1, 1, ZeroStage::none, false, 1}, "step 2: "},
                             SumCase{{2, 1, 1, ZeroStage::optimizer, false, 1}, "rank "}}) {
        CAPTURE(each.told);
        FlippedRun run;
        // The gradients of the first sequence were taken; those of the second are about to be. The lowest bit may be rounded away.
        run.begun = 1;
        run.bit = 1U << 20U;
        run.train(each.how);
        auto const& text = run.steps[1].skipped;
        CAPTURE(text);
        CHECK(text.starts_with(each.told));
        CHECK(text.find("step 2: " + run.parameter +
                        ": the sum of all ranks' gradients is another one where it is made again") !=
              std::string::npos);
    }
}
