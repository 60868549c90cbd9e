// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/run_devices.hpp>

#include "arguments.hpp"

namespace shardwise::cli {

/// The devices that --devices names as places to compute on: "cuda:0,cuda:1" or "hip:0". None where it is not given, where it names
/// memory for --strategy to fill ("2xgpu:24GiB", "auto", a description file), or where --strategy is given.
///
/// Errors  invalid_argument for devices of two vendors, one that is named twice, or what is no number of a device
[[nodiscard]] Result<RunDevices> read_run_devices(Arguments const& arguments);

/// How ranks on those devices add up.
///
/// Errors  invalid_argument for a word that is none of --comm; unsupported where there are no devices
[[nodiscard]] Result<DeviceComm> read_comm(Arguments const& arguments, RunDevices const& devices);

/// What activations lie in between those devices' kernels.
///
/// Errors  invalid_argument for a word that is none of --activations; unsupported for others than fp32 where there are no devices
[[nodiscard]] Result<Dtype> read_activations(Arguments const& arguments, RunDevices const& devices);

}  // namespace shardwise::cli
