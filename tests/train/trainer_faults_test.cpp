// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"
#include "ranks.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
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

TEST_CASE("Trainer: each phase of a step has the whole timeout") {
    CurveData const data;
    TrainedModel model(golden_config("llama_tied"));
    auto options = options_of(1);
    // A rank's own work may take twice as long as a call to others: 4 s.
    options.timeout = std::chrono::seconds(2);
    auto const body = [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
        std::set<TrainingPhase> slept;
        trainer.phases().on_begin([&](TrainingPhase phase, std::int64_t) -> Result<> {
            bool const sleeps = phase == TrainingPhase::data || phase == TrainingPhase::backward ||
                                phase == TrainingPhase::norm || phase == TrainingPhase::optimizer;
            if (sleeps && slept.insert(phase).second) std::this_thread::sleep_for(std::chrono::milliseconds(1300));
            return {};
        });
        auto const step = trainer.step(stream);
        if (!step) return step.error();
        CHECK(slept.size() == 4);
        return {};
    };
    auto const trained =
        train_ranks(model.context, model.program, model.weights, AdamW{}, data.batches(), options, 1, body);
    CHECK_MESSAGE(trained, (trained ? "" : trained.error().message()));
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
