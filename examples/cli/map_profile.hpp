// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/placement/placement_task.hpp>

#include "map_answer.hpp"
#include "requests.hpp"

#include <string>

namespace shardwise::cli {

/// Reads --profile, which makes `bottleneck` the objective where none is named.
///
/// Errors  invalid_argument for flags that do not go with it; what read_profile_file refuses
[[nodiscard]] Result<> read_profile_option(Arguments const& arguments, MapRequest& request);

/// Puts the measured times where there are any into the problem; warns of what had to be estimated.
///
/// Errors  what apply_profile refuses, with the file
[[nodiscard]] Result<> apply_profile_option(PlacementTask const& task, MapRequest const& request,
                                            ModuleSequence& modules, Budgets& budgets, MapAnswer& answer);

/// "times measured: decode at batch 1, context 4096 (profile.json)".
[[nodiscard]] std::string profile_text(MapAnswer const& answer);

}  // namespace shardwise::cli
