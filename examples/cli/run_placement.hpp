// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/session/run_options.hpp>

#include "arguments.hpp"
#include "load_model.hpp"

#include <string_view>

namespace shardwise::cli {

/// True where --map or --strategy says which stage computes which layers.
[[nodiscard]] bool has_placement(Arguments const& arguments);

/// The flag that the placement follows from.
[[nodiscard]] std::string_view placement_flag(Arguments const& arguments);

/// Checks which flags of placement are given together.
///
/// Errors  invalid_argument
[[nodiscard]] Result<> check_placement_flags(Arguments const& arguments, RunDevices const& devices);

/// Takes the stages from --map, or lets --strategy place the model on --devices, for what `limits` bounds; on devices of this machine so
/// that all that ranks allocate there fits. `model` is runnable.
///
/// Errors  out_of_memory where it does not fit, with what would help; those of reading maps and devices; unsupported
///         for a map that is no pipeline; invalid_argument where --pp says otherwise
[[nodiscard]] Result<> place_run(Arguments const& arguments, LoadedModel& model, ExecutorLimits const& limits,
                                 bool are_threads, RunOptions& options);

/// Gives all ranks the first one's placement: what is free on a device may have changed from one look at it to the next.
///
/// Errors  those of the collectives; on all ranks invalid_argument where one has found another number of stages
[[nodiscard]] Result<> share_placement(Arguments const& arguments, HostCommunicator& world, RunOptions& options);

}  // namespace shardwise::cli
