// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/module_tree.hpp>
#include <shardwise/placement/map_entries.hpp>
#include <shardwise/placement/placement_task.hpp>

#include "map_answer.hpp"
#include "requests.hpp"

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

/// Fills in devices, map, certificate, shortfall and fixes by a strategy of our own; answers --max first. Blocks whose activations are not
/// what the request's dtype and the model say have `activations`.
///
/// Errors  what the strategy refuses: not_covered, no_such_device for custom maps
[[nodiscard]] Result<PlacedModules> plan_map(PlacementTask const& task, MapRequest& request,
                                             List<MapEntry> const& custom, MapAnswer& answer,
                                             Optional<Dtype> activations = {});

/// Fills in devices and map as accelerate or transformers would make them.
///
/// Errors  capacity_exceeded for trees of absurd size
[[nodiscard]] Result<> plan_dialect_map(ModuleTree const& tree, std::span<std::string_view const> no_split,
                                        MapRequest const& request, MapAnswer& answer);

}  // namespace shardwise::cli
