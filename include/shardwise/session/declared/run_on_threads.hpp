// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/on_call.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/run_options.hpp>

#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

class OpenCheckpoint;
struct Model;
struct ModelSource;

/// Loads a checkpoint over ranks that are threads of this process, on the processor or on the devices that the options name, and
/// generates for all requests.
///
/// `files` and `model` are what read_checkpoint took and gave. Callbacks are called on one thread.
///
/// Errors  as run_in_group; no_such_device for devices of a vendor that the program was built without; those of run_on_devices
SHARDWISE_ON_CALL
[[nodiscard]] Result<RunReport> run_on_threads(OpenCheckpoint& files, Model const& model,
                                               std::vector<GenerationRequest> const& requests,
                                               RunOptions const& options = {});

/// The same, for files that are opened for it alone.
SHARDWISE_ON_CALL
[[nodiscard]] Result<RunReport> run_on_threads(ModelSource const& source, Model const& model,
                                               std::vector<GenerationRequest> const& requests,
                                               RunOptions const& options = {});

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
