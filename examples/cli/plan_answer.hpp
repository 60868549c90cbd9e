// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/hardware/topology.hpp>
#include <shardwise/plan/parallel_plan.hpp>
#include <shardwise/plan/picture.hpp>

#include "console.hpp"
#include "load_model.hpp"
#include "plan_adapter.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// A change that was tried and with which a plan exists.
struct PlanFix {
    /// "kv_dtype", "context", "quant", "devices", "recompute", "tp", "zero".
    std::string kind;
    /// Its number where it has one: tokens, devices, the stage; else 0.
    std::int64_t amount = 0;
    /// Its word where it has one: a quantisation, what is recomputed.
    std::string word;
    /// What to change, as a sentence.
    std::string text;
};

/// What `plan` found, ready to be printed.
struct PlanAnswer {
    LoadedModel const& loaded;
    PlanRequest request{};
    Topology topology{};
    /// True where the plan says the batch, because none was given.
    bool is_batch_chosen = false;
    /// Nothing where no way to cut the model fits.
    std::optional<ParallelPlan> plan{};
    std::string reason{};
    std::vector<PlanFix> fixes{};
    std::vector<std::string> warnings{};
    /// What is trained in the place of the model's weights, where that is asked for.
    std::optional<PlannedAdapter> adapter{};

    /// What is cut.
    [[nodiscard]] Model const& model() const { return adapter ? adapter->model : loaded.model; }
    /// What is run, with the packing of an adapter's base.
    [[nodiscard]] EstimateRequest asked() const {
        auto out = request.estimate;
        if (adapter) out.quant = adapter->quant;
        return out;
    }

    [[nodiscard]] Device const& device_of(PlanRank const& rank) const {
        return topology.devices[static_cast<std::size_t>(rank.device)];
    }
    /// What may be used of it.
    [[nodiscard]] Bytes capacity_of(PlanRank const& rank) const {
        return device_of(rank).usable(request.estimate.utilization);
    }
};

[[nodiscard]] std::string plan_json(PlanAnswer const& answer);
[[nodiscard]] std::string plan_text(PlanAnswer const& answer, Style const& style);

/// What --svg draws; where nothing fits, devices without a model.
[[nodiscard]] Picture plan_picture(PlanAnswer const& answer);

/// The smallest change of each kind with which the model fits, tried by planning again.
[[nodiscard]] std::vector<PlanFix> find_plan_fixes(PlanAnswer const& answer);

/// "8xH100-80GB", "4x(8xH100-80GB)": devices that are alike and stand next to each other are counted together.
[[nodiscard]] std::string describe_devices(Topology const& topology);

/// How a step of a job is spoken of.
struct StepWords {
    /// "one token"
    std::string_view head;
    /// "a token"
    std::string_view once;
    /// "decoded"
    std::string_view done;
};
[[nodiscard]] StepWords step_words(PlanAnswer const& answer);

/// "layers 0-15, embedding".
[[nodiscard]] std::string describe_stage(PlanStage const& stage);

/// "tp 8, pp 2"; degrees of 1 are left out, "one device" where all are.
[[nodiscard]] std::string describe_degrees(PlanDegrees const& degrees);

}  // namespace shardwise::cli
