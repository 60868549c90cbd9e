// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/on_call.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/run_options.hpp>

#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

class OpenCheckpoint;
struct Model;

#if defined(SHARDWISE_HAS_CUDA)
/// run_on_devices on NVIDIA's: what run_on_threads calls where `options.devices` name them.
SHARDWISE_ON_CALL
[[nodiscard]] Result<RunReport> run_on_cuda(OpenCheckpoint& files, Model const& model,
                                          std::vector<GenerationRequest> const& requests, RunOptions const& options);
#endif
#if defined(SHARDWISE_HAS_HIP)
/// run_on_devices on AMD's: what run_on_threads calls where `options.devices` name them.
SHARDWISE_ON_CALL
[[nodiscard]] Result<RunReport> run_on_hip(OpenCheckpoint& files, Model const& model,
                                          std::vector<GenerationRequest> const& requests, RunOptions const& options);
#endif

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
