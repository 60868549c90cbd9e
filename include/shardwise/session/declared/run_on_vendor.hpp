// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/on_call.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/declared/embed.hpp>
#include <shardwise/session/declared/serve_on_threads.hpp>
#include <shardwise/session/run_options.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

class OpenCheckpoint;
struct ExecutorLimits;
struct Model;

#if defined(SHARDWISE_HAS_CUDA)
/// run_on_devices on NVIDIA's: what run_on_threads calls where `options.devices` name them, and the others that embed and serve.
SHARDWISE_ON_CALL
[[nodiscard]] Result<RunReport> run_on_cuda(OpenCheckpoint& files, Model const& model,
                                            std::vector<GenerationRequest> const& requests, RunOptions const& options);
SHARDWISE_ON_CALL
[[nodiscard]] Result<std::vector<Embedding>> embed_on_cuda(OpenCheckpoint& files, Model const& model,
                                                           std::vector<std::vector<std::int32_t>> const& texts,
                                                           EmbedOptions const& options);
SHARDWISE_ON_CALL
[[nodiscard]] Result<> serve_on_cuda(OpenCheckpoint& files, Model const& model, RunOptions const& options,
                                     NextRequest const& next, OnGeneration const& on_generation);
/// One rank of a group of processes.
SHARDWISE_ON_CALL
[[nodiscard]] Result<RunReport> run_in_group_on_cuda(HostCommunicator& world, OpenCheckpoint& files, Model const& model,
                                                     std::vector<GenerationRequest> const& requests,
                                                     RunOptions const& options);
/// What each rank will take of its device.
SHARDWISE_ON_CALL
[[nodiscard]] Result<std::vector<Bytes>> predict_on_cuda(OpenCheckpoint& files, Model const& model,
                                                         ExecutorLimits const& limits, RunOptions const& options,
                                                         bool are_threads);
#endif
#if defined(SHARDWISE_HAS_HIP)
/// run_on_devices on AMD's: what run_on_threads calls where `options.devices` name them, and the others that embed and serve.
SHARDWISE_ON_CALL
[[nodiscard]] Result<RunReport> run_on_hip(OpenCheckpoint& files, Model const& model,
                                           std::vector<GenerationRequest> const& requests, RunOptions const& options);
SHARDWISE_ON_CALL
[[nodiscard]] Result<std::vector<Embedding>> embed_on_hip(OpenCheckpoint& files, Model const& model,
                                                          std::vector<std::vector<std::int32_t>> const& texts,
                                                          EmbedOptions const& options);
SHARDWISE_ON_CALL
[[nodiscard]] Result<> serve_on_hip(OpenCheckpoint& files, Model const& model, RunOptions const& options,
                                    NextRequest const& next, OnGeneration const& on_generation);
/// One rank of a group of processes.
SHARDWISE_ON_CALL
[[nodiscard]] Result<RunReport> run_in_group_on_hip(HostCommunicator& world, OpenCheckpoint& files, Model const& model,
                                                    std::vector<GenerationRequest> const& requests,
                                                    RunOptions const& options);
/// What each rank will take of its device.
SHARDWISE_ON_CALL
[[nodiscard]] Result<std::vector<Bytes>> predict_on_hip(OpenCheckpoint& files, Model const& model,
                                                        ExecutorLimits const& limits, RunOptions const& options,
                                                        bool are_threads);
#endif

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
