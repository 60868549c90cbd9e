// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("Trainer: a validation that one rank stops before any of its passes ends on all, and changes nothing") {
    CurveData const data;
    TrainedModel const base(golden_config("llama_tied"));
    struct Case {
        std::int32_t ranks = 1;
        std::int32_t tp = 1;
        std::int32_t pp = 1;
        ZeroStage zero = ZeroStage::none;
        std::int64_t micro_batch = 1;
    };
    auto const held_out = [&] {
        return TrainedModel::take(Batches::create(*data.dataset, {400, 400 + 7 * golden_context + 1},
                                                  {.context = golden_context, .batch = 1, .shuffles = false}));
    };
    double expected = 0.0;
    // Of three ranks one has a sequence of a batch more, and so fewer passes where they have as many sequences at once as a step gives them.
    for (auto const& each : {Case{}, Case{3, 1, 1, ZeroStage::none, 2}, Case{3, 1, 1, ZeroStage::weights, 2},
                             Case{2, 2}, Case{2, 1, 2}, Case{4, 2, 1, ZeroStage::weights}, Case{4, 1, 2}}) {
        CAPTURE(each.ranks);
        CAPTURE(each.tp);
        CAPTURE(each.pp);
        TrainOptions options{.steps = 1,
                             .micro_batch = each.micro_batch,
                             .schedule = {.learning_rate = 3e-3, .total = 1},
                             .zero = each.zero};
        options.tp = each.tp;
        options.pp = each.pp;
        HostContext context({.threads = 1});
        std::mutex mutex;
        std::vector<double> means;
        std::vector<std::int64_t> passes;
        auto const weights = [&](HostContext& own, TrainingPlace const& place, WeightStorage const& storage) {
            return TrainingWeights::initialise(own, base.model(), {.seed = 3}, place, storage);
        };
        auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
            auto const whole = trainer.validate(held_out(), stream);
            if (!whole) return whole.error();
            std::int64_t asked = 0;
            auto const traffic = trainer.traffic().total();
            auto const never = trainer.validate(held_out(), stream, [&asked] { return ++asked < 0; });
            if (!never) return never.error();
            REQUIRE(*never);
            CHECK((*never)->mean() == whole->mean());
            auto const of_one = trainer.traffic().total().bytes - traffic.bytes;
            for (std::int64_t last = 0; last < asked; ++last) {
                for (std::int32_t rank = 0; rank < trainer.comm().size(); ++rank) {
                    std::int64_t number = 0;
                    bool const is_it = trainer.comm().rank() == rank;
                    auto const stopped =
                        trainer.validate(held_out(), stream, [&] { return number++ == last && is_it; });
                    if (!stopped) return stopped.error();
                    CHECK_FALSE(*stopped);
                    CHECK(number == last + 1);
                }
            }
            auto const before = trainer.traffic().total().bytes;
            auto const again = trainer.validate(held_out(), stream);
            if (!again) return again.error();
            CHECK(again->mean() == whole->mean());
            // Asking is no traffic.
            CHECK(trainer.traffic().total().bytes - before == of_one);
            auto const step = trainer.step(stream);
            if (!step) return step.error();
            std::lock_guard const lock(mutex);
            means.push_back(whole->mean());
            passes.push_back(asked);
            return {};
        };
        auto const ran =
            train_ranks(context, base.model(), weights, AdamW{}, data.batches(4), options, each.ranks, body);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        if (expected == 0.0) expected = means[0];
        for (auto const mean : means) CHECK(mean == expected);
        for (auto const count : passes) CHECK(count == passes[0]);
        CHECK(passes[0] > 1);
    }
}
