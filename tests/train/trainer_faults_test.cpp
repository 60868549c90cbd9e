// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"
#include "ranks.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
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

/// A rank that fails at one of its steps towards the others, whichever thread takes it.
class FailingThreads : public Threads {
public:
    static constexpr bool runs_beside = true;

    explicit FailingThreads(Threads threads) : Threads(std::move(threads)) {}
    [[nodiscard]] Result<> step() {
        if (left_-- == 0)
            return fail(Error{ErrorCode::rank_lost}.in("rank " + std::to_string(rank())).because("broke"));
        return Threads::step();
    }
    void fail_after(std::int64_t steps) { left_ = steps; }
    [[nodiscard]] std::int64_t left() const { return left_; }

private:
    std::int64_t left_ = std::int64_t{1} << 40U;
};

}  // namespace

TEST_CASE("Trainer: a rank that breaks at any exchange of a step, beside a backward pass too, ends it on all ranks") {
    CurveData const data;
    auto const config = golden_config("llama_tied");
    for (auto const zero : {ZeroStage::none, ZeroStage::gradients}) {
        auto options = options_of(3, zero);
        options.buckets = BucketLimits::with_cap(Bytes{4000});
        constexpr std::int64_t many = std::int64_t{1} << 40U;
        std::int64_t calls = many;
        // A sample of them, the first and those beside the pass among it.
        for (std::int64_t at = -1; at < calls; at += at < 0 ? 1 : 5) {
            CAPTURE(at);
            std::atomic<int> finished = 0;
            auto const ended = on_threads(3, [&](Threads& thread) {
                TrainedModel model(config);
                FailingThreads comm(std::move(thread));
                auto trainer = Trainer<AdamW, FailingThreads>::create(model.context, comm, model.program, model.weights,
                                                                      AdamW{}, data.batches(5), options);
                REQUIRE(trainer);
                auto stream = model.context.make_stream();
                CHECK(trainer->step(stream));
                // No rank is still in this step when one breaks.
                ++finished;
                while (finished < 3) std::this_thread::yield();
                // The first time it is seen how many there are.
                bool const fails = at >= 0 && comm.rank() == 1;
                comm.fail_after(fails ? at : many);
                auto const step = trainer->step(stream);
                if (at < 0 && comm.rank() == 1) {
                    calls = many - comm.left();
                    CHECK(trainer->gradients().early_buckets() >= 4);
                }
                return step ? std::string("went on") : step.error().message();
            });
            for (auto const& each : ended) CHECK(each.find(at < 0 ? "went on" : "rank 1: broke") != std::string::npos);
            if (calls == many) break;
        }
        CHECK(calls < 1000);
    }
}

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

TEST_CASE("Trainer: any rank stops all before the same step") {
    CurveData const data;
    TrainedModel model(golden_config("llama_tied"));
    auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
        auto const steps = trainer.run(stream, [&](TrainedStep const& step) -> Result<> {
            if (trainer.comm().rank() == 1 && step.number == 2) trainer.request_stop();
            return {};
        });
        if (!steps) return steps.error();
        CHECK(trainer.state() == TrainerPosition{3, {}});
        return {};
    };
    CHECK(train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options_of(9), 3, body));
}

TEST_CASE("Trainer: what fails on one rank is told on all, with its rank") {
    CurveData const data;
    auto const config = golden_config("llama_tied");
    auto const errors_of = [&](auto const& change, TrainOptions const& options = options_of(3),
                               std::int64_t batch = 4) {
        return on_threads(3, [&](Threads& thread) {
            TrainedModel model(config);
            HostCommunicator comm(std::move(thread));
            auto own = options;
            auto batches = data.batches(batch);
            change(comm.rank(), model, own);
            auto trainer =
                Trainer<AdamW>::create(model.context, comm, model.program, model.weights, AdamW{}, batches, own);
            if (!trainer) return trainer.error().message();
            auto stream = model.context.make_stream();
            auto const steps = trainer->run(stream, [&](TrainedStep const& step) -> Result<> {
                if (own.max_skipped == 77 && step.number == 1 && comm.rank() == 2)
                    return Error{ErrorCode::file_unwritable}.in("loss.csv");
                if (own.check_every == 2 && step.number == 0 && comm.rank() == 1)
                    model.weights.values(3).data()[7] += 1.0F;
                return {};
            });
            return steps ? std::string() : steps.error().message();
        });
    };
    auto const all_say = [](std::vector<std::string> const& errors, std::string const& text) {
        for (auto const& error : errors) {
            CAPTURE(error);
            CHECK(error.find(text) != std::string::npos);
        }
    };
    auto const nothing = [](std::int32_t, TrainedModel&, TrainOptions&) {};
    all_say(errors_of([](auto rank, auto&, auto& options) {
                if (rank == 1) options.clip = 2.0;
            }),
            "rank 1: trains with other options, batches or sizes than rank 0");
    all_say(errors_of([](auto rank, auto&, auto& options) {
                if (rank == 1) options.buckets = BucketLimits::with_cap(Bytes{1 << 20});
            }),
            "rank 1: trains with other options, batches or sizes than rank 0");
    all_say(errors_of([](auto rank, auto& model, auto&) {
                if (rank == 2) model.weights.values(1).data()[5] = 9.0F;
            }),
            "rank 2: model.layers.0.self_attn.q_proj.weight: differs from what most ranks have");
    auto options = options_of(3);
    options.check_every = 2;
    all_say(errors_of(nothing, options), "rank 1: ");
    options = options_of(3);
    options.max_skipped = 77;
    all_say(errors_of(nothing, options), "loss.csv");
    options = options_of(3);
    options.timeout = std::chrono::nanoseconds(1);
    all_say(errors_of(nothing, options), "step 1: did not finish before its deadline");
    options = options_of(3);
    options.pp = 2;
    all_say(errors_of(nothing, options),
            "training: ranks: are not whole replicas of tensor-parallel ranks and stages (got 3, expected a multiple "
            "of 2)");
    options = options_of(3);
    options.tp = 2;
    all_say(errors_of(nothing, options),
            "training: ranks: are not whole groups of tensor-parallel ranks (got 3, expected a multiple of 2)");
    all_say(
        errors_of(nothing, options_of(3), 2),
        "training: ranks: are more than the sequences of a batch, of which each takes at least one (got 3, expected at "
        "most 2); use fewer ranks or a larger batch");
}

TEST_CASE("Trainer: ranks that go on from other steps or with other weights are named on all") {
    CurveData const data;
    auto const config = golden_config("llama_tied");
    auto const errors_of = [&](auto const& change) {
        return on_threads(3, [&](Threads& thread) {
            TrainedModel model(config);
            HostCommunicator comm(std::move(thread));
            auto trainer = Trainer<AdamW>::create(model.context, comm, model.program, model.weights, AdamW{},
                                                  data.batches(), options_of(6));
            if (!trainer) return trainer.error().message();
            TrainerPosition position{3, {1}};
            change(comm.rank(), model, position);
            auto const restored = trainer->restore(position);
            CHECK((restored || trainer->state() == TrainerPosition{}));
            return restored ? std::string() : restored.error().message();
        });
    };
    auto const same = errors_of([](auto, auto&, auto&) {});
    CHECK(same == std::vector<std::string>(3));
    auto const all_say = [](std::vector<std::string> const& errors, std::string const& text) {
        for (auto const& error : errors) CHECK_MESSAGE(error.find(text) != std::string::npos, error);
    };
    all_say(errors_of([](auto rank, auto&, auto& position) { position.step += rank == 1 ? 1 : 0; }),
            "rank 1: goes on from other steps than rank 0; give all ranks the same");
    all_say(errors_of([](auto rank, auto&, auto& position) {
                if (rank == 2) position.skipped = {2};
            }),
            "rank 2: goes on from other steps than rank 0");
    all_say(errors_of([](auto rank, auto&, auto& position) {
                if (rank == 2) position.skipped = {3};
            }),
            "rank 2: training: skipped: has a step that is not between the one before and the next (got 3, expected 0 "
            "to 2)");
    all_say(errors_of([](auto rank, auto& model, auto&) {
                if (rank == 1) model.weights.values(1).data()[5] += 1.0F;
            }),
            "rank 1: model.layers.0.self_attn.q_proj.weight: differs from what most ranks have");
}
