// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/training/adapted_model.hpp>
#include <shardwise/plan/parallel_plan.hpp>

#include "load_model.hpp"

#include <cstdint>
#include <optional>

namespace shardwise::cli {

/// The adapter whose training is planned.
struct PlannedAdapter {
    std::int64_t rank = 0;
    /// Elements of its halves, on all ranks together.
    std::int64_t parameters = 0;
    /// How the base is packed, where --quant says so: the model's tensors have the bytes.
    Optional<QuantScheme> quant{};
    /// Of one rank.
    TrainingProgram program;
    /// What is planned in the place of the loaded model, which outlives this.
    Model model;
};

/// Makes `request` one of training an adapter, with the degrees that shardwise train runs on up to `devices`; nothing where `low_rank`
/// has none. As the trainer, layers compute in fp32 unless --dtype says otherwise.
///
/// Errors  unsupported where train runs none of it, or not with a pinned degree; as hold_base
[[nodiscard]] Result<std::optional<PlannedAdapter>> plan_adapter(LoadedModel& loaded, LowRankOptions low_rank,
                                                                 std::int64_t devices, PlanRequest& request);

}  // namespace shardwise::cli
