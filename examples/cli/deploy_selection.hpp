// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/deploy/deploy_request.hpp>
#include <shardwise/memory/request.hpp>

#include "deploy_devices.hpp"
#include "load_model.hpp"

namespace shardwise::cli {

/// Gives the request these devices, checks what needs no plan, and plans.
///
/// Errors  as check_deploy and plan_deployment
[[nodiscard]] Result<> plan_on(LoadedModel const& loaded, EstimateRequest const& estimate, DeployDevices const& found,
                               DeployRequest& request);

/// Leaves of `found` the fewest devices that hold the model, of equally many the best joined, of these those with the
/// most free memory; then as plan_on.
///
/// Errors  those of the largest selection where none does
[[nodiscard]] Result<> plan_on_fewest(LoadedModel const& loaded, EstimateRequest const& estimate, DeployDevices& found,
                                      DeployRequest& request);

}  // namespace shardwise::cli
