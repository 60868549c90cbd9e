// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/schedule/makespan.hpp>
#include <shardwise/schedule/pipeline_kind.hpp>

#include "train_report.hpp"
#include "training.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

/// What the zero-bubble tables of a pipeline save.
namespace bench {

/// Seconds of the shortest of some steps of two stages of one thread each, by micro-batches of a sequence.
[[nodiscard]] inline double pipeline_step(Training const& training, std::int64_t batch, PipelineKind kind, int calls) {
    double best = 1e30;
    HostContext context({.threads = 1});
    auto const weights = [&](HostContext& own, TrainingPlace const& place, WeightStorage const& storage) {
        return TrainingWeights::initialise(own, training.model(), {}, place, storage);
    };
    TrainOptions options{.steps = calls + 1, .micro_batch = 1, .schedule = {.learning_rate = 3e-4, .total = calls + 1}};
    options.pp = 2;
    options.pipeline = kind;
    auto const body = [&](auto& trainer, HostStream& stream) { return time_steps(trainer, stream, calls, best); };
    auto const done =
        train_ranks(context, training.model(), weights, AdamW{}, training.batches(batch), options, 2, body);
    if (!done) stop(done.error().message());
    return best;
}

/// Each zero-bubble table against 1f1b, in turns; beside the ratio stands that of the tables' lengths, where a backward pass takes twice a
/// forward pass.
inline void compare_pipelines(Report& report, std::string const& name, Training const& training, std::int64_t batch,
                              int calls, int rounds) {
    using Kind = PipelineKind;
    struct Table {
        Kind kind;
        std::string name;
        std::vector<double> seconds, ratios;
    };
    std::vector<Table> tables{{Kind::one_forward_one_backward, "1f1b", {}, {}},
                              {Kind::zero_bubble, "zero_bubble", {}, {}},
                              {Kind::zero_bubble_v, "zero_bubble_v", {}, {}}};
    for (int round = 0; round < rounds; ++round) {
        for (auto& table : tables) {
            table.seconds.push_back(pipeline_step(training, batch, table.kind, calls));
            table.ratios.push_back(tables[0].seconds.back() / table.seconds.back());
        }
    }
    auto const middle = [](std::vector<double> values) {
        std::sort(values.begin(), values.end());
        return values[values.size() / 2];
    };
    auto const length = [&](Kind kind) {
        auto const table = take(pipeline_table(kind, 2, batch));
        bool const has_two_parts = kind != Kind::one_forward_one_backward;
        auto const units = take(makespan(table, PipelineTimes{.backward = has_two_parts ? 1.0 : 2.0}));
        return units / static_cast<double>(table.chunks);
    };
    for (std::size_t i = 1; i < tables.size(); ++i) {
        report.add(name + ", pp 2, " + tables[i].name, middle(tables[i].seconds) * 1e3, "ours, 1f1b",
                   middle(tables[0].seconds) * 1e3, "ms", middle(tables[i].ratios), 1.0);
        if (!report.is_json)
            std::printf("  by the tables' lengths the ratio would be %.3f\n",
                        length(tables[0].kind) / length(tables[i].kind));
    }
}

}  // namespace bench
