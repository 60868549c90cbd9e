// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_report.hpp"
#include "training.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

/// How much of what ranks tell each other of gradients a backward pass hides.
namespace bench {

/// Threads whose steps towards each other take longer, as over a network, while the core is free. With `Beside` a thread of its own may
/// exchange gradients.
template <bool Beside>
class LateThreads : public Threads {
public:
    static constexpr std::string_view name = "late threads";
    static constexpr bool runs_beside = Beside;

    LateThreads(Threads rank, std::chrono::nanoseconds latency) : Threads(std::move(rank)), latency_(latency) {}
    [[nodiscard]] Result<> step() {
        std::this_thread::sleep_for(latency_);
        return Threads::step();
    }

private:
    std::chrono::nanoseconds latency_;
};

/// Seconds of the shortest of some steps of two ranks, of some sequences each, whose steps towards each other take so long.
template <bool Beside>
[[nodiscard]] double late_step(Training const& training, ZeroStage zero, std::int64_t sequences, int calls,
                               std::chrono::nanoseconds latency) {
    double best = 1e30;
    auto const rank = [&](Threads& thread) -> Result<> {
        LateThreads<Beside> comm(std::move(thread), latency);
        HostContext context({.threads = 1});
        auto const program = take(TrainingProgram::create(training.model()));
        auto weights = take(TrainingWeights::initialise(context, training.model(), {}));
        TrainOptions const options{.steps = calls + 1,
                                   .schedule = {.learning_rate = 3e-4, .total = calls + 1},
                                   .zero = zero,
                                   .buckets = BucketLimits::with_cap(Bytes{1 << 18})};
        auto trainer = take(Trainer<AdamW, LateThreads<Beside>>::create(context, comm, program, weights, AdamW{},
                                                                        training.batches(2 * sequences), options));
        auto stream = context.make_stream();
        for (int i = 0; i <= calls; ++i) {
            auto const seconds = time_once([&] {
                if (auto const done = trainer.step(stream); !done) stop(done.error().message());
            });
            if (i > 0 && comm.rank() == 0) best = std::min(best, seconds);
        }
        return {};
    };
    if (auto const done = run_threads(2, rank); !done) stop(done.error().message());
    return best;
}

/// Steps that are compared: of a model, of two ranks with some sequences each, whose steps towards each other take so long.
struct LateCase {
    std::string name;
    ZeroStage zero = ZeroStage::none;
    std::int64_t sequences = 1;
    std::chrono::microseconds latency{500};
    int calls = 3;
    int rounds = 7;
};

/// A step with injected latency against the longer of computing and of telling each other: the goal is at most 1.15 of it.
inline void compare_overlap(Report& report, Training const& training, LateCase const& late) {
    double compute = 1e30, behind = 1e30, beside = 1e30, unneeded = 1e30;
    auto const add = [&]<bool Beside>(double& shortest, std::chrono::nanoseconds latency) {
        shortest = std::min(shortest, late_step<Beside>(training, late.zero, late.sequences, late.calls, latency));
    };
    for (int round = 0; round < late.rounds; ++round) {
        add.operator()<false>(compute, std::chrono::nanoseconds(0));
        add.operator()<false>(behind, late.latency);
        add.operator()<true>(beside, late.latency);
        add.operator()<true>(unneeded, std::chrono::nanoseconds(0));
    }
    auto const longer = std::max(compute, behind - compute);
    if (!report.is_json)
        std::printf(
            "computing %.3g ms, by two threads %.3g ms, telling each other %.3g ms, behind each other %.3g ms\n",
            compute * 1e3, unneeded * 1e3, (behind - compute) * 1e3, behind * 1e3);
    report.add("step, " + late.name + ", dp 2, latency " + std::to_string(late.latency.count()) + " us", beside * 1e3,
               "the longer of both", longer * 1e3, "ms", longer / beside, 1.0 / 1.15);
}

}  // namespace bench
