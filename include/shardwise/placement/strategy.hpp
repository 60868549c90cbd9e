// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/placement/placement.hpp>

#include <concepts>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Has `name`, as reports and flags show it.
template <class S>
concept HasName = requires(S const& strategy) {
    { strategy.name } -> std::convertible_to<std::string_view>;
};

/// Is callable with the units and the budgets and gives a placement or an error.
template <class S>
concept PlacesModules = requires(S const& strategy, ModuleSequence const& modules, Budgets const& budgets) {
    { strategy(modules, budgets) } -> std::same_as<Result<Placement>>;
};

/// Decides which device holds which unit. Add one: docs/how-to/add-a-strategy.md.
template <class S>
concept PlacementStrategy = std::copyable<S> && HasName<S> && PlacesModules<S>;

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
