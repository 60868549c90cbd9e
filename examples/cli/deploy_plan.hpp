// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/deploy/deploy_request.hpp>
#include <shardwise/memory/request.hpp>

#include "deploy_devices.hpp"
#include "load_model.hpp"

namespace shardwise::cli {

/// Plans the model over all of the devices and writes degrees, stages and bytes into the request, whose engine, devices
/// and model are set.
///
/// Errors  out_of_memory with a change that would help; invalid_argument where the devices are not as many as an even
///         degree, or more than the model gains by
[[nodiscard]] Result<> plan_deployment(LoadedModel const& loaded, EstimateRequest const& estimate,
                                       DeployDevices const& found, DeployRequest& request);

}  // namespace shardwise::cli
