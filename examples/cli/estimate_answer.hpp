// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/trained_adapter.hpp>
#include <shardwise/memory/estimate.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/estimate_training.hpp>
#include <shardwise/train/sgd.hpp>

#include "console.hpp"
#include "load_model.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::cli {

/// What ranks of `shardwise train` allocate for a training that was asked for, to the byte; or why it does not run.
struct TrainedEstimate {
    std::vector<TrainingEstimate> ranks;
    /// Elements that are trained; of an adapter its own.
    std::int64_t parameters = 0;
    std::string refusal;
};

/// Why shardwise train does not run what is asked, whatever the degrees; empty where nothing speaks against it.
[[nodiscard]] std::string training_refusal(LoadedModel const& loaded, EstimateRequest const& request, bool has_adapter);

/// What the library's trainer takes of a request with a training.
[[nodiscard]] TrainOptions train_options_of(EstimateRequest const& request);

/// Calls `call(rule)` with an optimizer of this kind, as it is counted.
template <class Call>
[[nodiscard]] auto with_counted_rule(OptimizerKind kind, Call const& call) {
    switch (kind) {
        case OptimizerKind::adam:
            break;
        case OptimizerKind::sgd:
            return call(Sgd{.momentum = 0.9});
        case OptimizerKind::adam8bit:
            return call(Adam8bit{});
    }
    return call(AdamW{});
}

/// What ranks allocate for a request in our convention, of an adapter where `low_rank` has one; nothing in others.
[[nodiscard]] std::optional<TrainedEstimate> estimate_trained(LoadedModel const& loaded, EstimateRequest const& request,
                                                              std::int64_t context, LowRankOptions const& low_rank);

/// Gives the devices of an estimate what the trainer allocates on each, where it runs; parts of the model stay as they are.
void count_as_trained(TrainedEstimate const& trained, Parallelism const& parallel, MemoryEstimate& estimate);

/// What `estimate` found, ready to be printed.
struct EstimateAnswer {
    LoadedModel const& loaded;
    EstimateRequest request;
    MemoryEstimate estimate;
    std::vector<std::string> warnings;
    std::optional<TrainedEstimate> trained{};
    LowRankOptions low_rank{};
};

[[nodiscard]] std::string estimate_json(EstimateAnswer const& answer);
[[nodiscard]] std::string estimate_text(EstimateAnswer const& answer, Style const& style);

/// The sentence for an assumption of this request.
[[nodiscard]] std::string sentence_of(Assumption assumption, EstimateRequest const& request);

/// A part's name: "model.layers.0-31" for a run, "(own tensors)" for the root's.
[[nodiscard]] std::string name_of(ModuleEstimate const& module);

}  // namespace shardwise::cli
