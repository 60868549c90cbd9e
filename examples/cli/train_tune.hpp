// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/trainer.hpp>

#include "micro_batch_choice.hpp"
#include "train_plan.hpp"
#include "train_run.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace shardwise::cli {

/// Measures micro-batches and plans with the fastest, by the slowest rank of each. `train(plan, body)` trains this process' ranks. No weight
/// changes, and each fits by its prediction. All ranks take the same.
///
/// Errors  as predict_memory and `train`
template <OptimizerRule Rule, class Train>
[[nodiscard]] Result<> tune_micro_batch(TrainJob const& job, TrainAnswer& answer, Train const& train) {
    auto const sizes = micro_batches_to_measure(answer.plan.micro_batch);
    if (sizes.size() == 1) return {};
    std::string measured;
    auto const measure = [&](std::int64_t size) -> Result<std::chrono::nanoseconds> {
        auto tried = answer;
        if (auto const planned = replan_micro_batch(*job.programs, job.divisors, size, tried); !planned)
            return planned.error();
        std::chrono::nanoseconds time{0};
        auto const body = [&](Trainer<Rule>& trainer, HostStream& stream) -> Result<> {
            auto const taken = trainer.measure(stream);
            if (!taken) return taken.error();
            if (job.world != nullptr || trainer.comm().rank() == 0) time = *taken;
            return {};
        };
        if (auto const done = train(tried.plan, body); !done) return done.error();
        measured += (measured.empty() ? "" : ", ") + std::to_string(size);
        return time;
    };
    auto const best = fastest_micro_batch(sizes, measure);
    if (!best) return best.error();
    answer.plan.reason += "; the fastest micro-batch of " + measured;
    return replan_micro_batch(*job.programs, job.divisors, *best, answer);
}

}  // namespace shardwise::cli
