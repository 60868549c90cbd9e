// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/estimate.hpp>
#include <shardwise/memory/request.hpp>

#include "console.hpp"
#include "load_model.hpp"

#include <string>
#include <vector>

namespace shardwise::cli {

/// What `estimate` found, ready to be printed.
struct EstimateAnswer {
    LoadedModel const& loaded;
    EstimateRequest request;
    MemoryEstimate estimate;
    std::vector<std::string> warnings;
};

[[nodiscard]] std::string estimate_json(EstimateAnswer const& answer);
[[nodiscard]] std::string estimate_text(EstimateAnswer const& answer, Style const& style);

/// The sentence for an assumption of this request.
[[nodiscard]] std::string sentence_of(Assumption assumption, EstimateRequest const& request);

/// A part's name: "model.layers.0-31" for a run, "(own tensors)" for the root's.
[[nodiscard]] std::string name_of(ModuleEstimate const& module);

}  // namespace shardwise::cli
