// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/on_call.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/run_options.hpp>

#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

class OpenCheckpoint;
struct Model;

/// Runs one rank of a group that runs a checkpoint together: every rank calls it with the same model, requests and
/// options, but that only rank 0 needs callbacks. All ranks get the report.
///
/// `files` and `model` are what read_checkpoint took and gave. `world` has options.ranks() ranks.
///
/// Errors  invalid_argument for impossible ranks or requests; those of loading, of the executor and of the ranks: of
///         the first rank that fails, with its number
SHARDWISE_ON_CALL
[[nodiscard]] Result<RunReport> run_in_group(HostCommunicator& world, OpenCheckpoint& files, Model const& model,
                                             std::vector<GenerationRequest> const& requests,
                                             RunOptions const& options = {});

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
