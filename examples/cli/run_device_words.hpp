// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/all_reduce_time.hpp>
#include <shardwise/session/run_devices.hpp>
#include <shardwise/session/run_options.hpp>

#include "arguments.hpp"
#include "device_choice.hpp"

#include <string>
#include <vector>

namespace shardwise::cli {

/// True where --devices lists devices that ranks compute on, "cuda:0,cuda:1", with nothing that places layers on them.
[[nodiscard]] bool lists_run_devices(Arguments const& arguments);

/// The devices that --devices names as places to compute on: "cuda:0,cuda:1", "hip:0", or otherwise accelerators of this machine: "auto", "0",
/// a UUID. None where it is not given, or names the processor or memory of devices elsewhere ("2xgpu:24GiB", a description file).
///
/// Errors  invalid_argument for devices of two vendors, one that is named twice, or what is no number of a device; unsupported for one that
///         no back end computes on; those of choose_devices. `warnings` gets those of detection.
[[nodiscard]] Result<RunDevices> read_run_devices(Arguments const& arguments, std::vector<std::string>& warnings);

/// Checks that memory of the host and disks, "+cpu:64GiB", stands beside accelerators of this machine only where --strategy places layers on
/// it.
///
/// Errors  invalid_argument
[[nodiscard]] Result<> check_storage_words(Arguments const& arguments, bool has_accelerators);

/// These devices, in their order, by the numbers that their runtime gives them.
///
/// Errors  invalid_argument for two vendors; unsupported for one that no back end computes on
[[nodiscard]] Result<RunDevices> runtime_devices(std::vector<OwnAccelerator> const& accelerators);

/// How ranks on those devices add up.
///
/// Errors  invalid_argument for a word that is none of --comm; unsupported where there are no devices
[[nodiscard]] Result<DeviceComm> read_comm(Arguments const& arguments, RunDevices const& devices);

/// What activations lie in between those devices' kernels; nothing where that is not asked for.
///
/// Errors  invalid_argument for a word that is none of --activations; unsupported for others than fp32 where there are no devices
[[nodiscard]] Result<Optional<Dtype>> read_activations(Arguments const& arguments, RunDevices const& devices);

/// --calibration, for ranks on devices: what sums over them were measured to take.
///
/// Errors  what the file's reader refuses; invalid_argument without devices and for a file that measured no sums
[[nodiscard]] Result<List<AllReduceTime>> read_peer_sums(Arguments const& arguments, RunDevices const& devices);

/// Checks that something of the run adds up by what --calibration measured: ranks that are threads, and reach each other's memory.
/// `is_group`: they are processes.
///
/// Errors  invalid_argument, with the flag that it does not go with
[[nodiscard]] Result<> check_calibration_is_used(Arguments const& arguments, RunOptions const& options, bool is_group);

/// A warning of each number of ranks and devices that the run has and --calibration has no sums of. Once the degrees are known.
void warn_of_missing_sums(Arguments const& arguments, RunOptions const& options, std::vector<std::string>& warnings);

}  // namespace shardwise::cli
