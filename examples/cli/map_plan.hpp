// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/module_tree.hpp>
#include <shardwise/placement/map_entries.hpp>
#include <shardwise/placement/placement_task.hpp>

#include "map_answer.hpp"
#include "requests.hpp"

#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// What was placed, on what, and where: `placement` is empty where the strategy found no place for all.
struct PlacedModules {
    ModuleSequence modules;
    Budgets budgets;
    Placement placement;
};

/// What accelerators take of a run that is placed so, by budget.
using NeedOfRun =
    std::function<Result<List<Bytes>>(ModuleSequence const& modules, Budgets const& budgets, Placement const&)>;

/// Fills in devices, map, certificate, shortfall and fixes by a strategy of our own; answers --max first. Blocks whose activations are not
/// what the request's dtype and the model say have `activations`, and what runs there fits by `need` (place_by_need).
///
/// Errors  what the strategy refuses: not_covered, no_such_device for custom maps; those of `need`, and out_of_memory
///         where the units alone would fit
[[nodiscard]] Result<PlacedModules> plan_map(PlacementTask const& task, MapRequest& request,
                                             List<MapEntry> const& custom, MapAnswer& answer,
                                             Optional<Dtype> activations = {}, NeedOfRun const& need = {});

/// Fills in devices and map as accelerate or transformers would make them.
///
/// Errors  capacity_exceeded for trees of absurd size
[[nodiscard]] Result<> plan_dialect_map(ModuleTree const& tree, std::span<std::string_view const> no_split,
                                        MapRequest const& request, MapAnswer& answer);

}  // namespace shardwise::cli
