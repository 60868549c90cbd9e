// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/declared/run_on_vendor.hpp>

#if defined(SHARDWISE_HAS_CUDA) && SHARDWISE_HAS_BODY(CUDA)
#include <shardwise/backend/cuda.hpp>
#include <shardwise/session/predict_rank.hpp>
#include <shardwise/session/run_on_devices.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

SHARDWISE_ON_CALL_BODY
Result<RunReport> run_on_cuda(OpenCheckpoint& files, Model const& model, std::vector<GenerationRequest> const& requests,
                              RunOptions const& options) {
    return run_on_devices<Cuda>(files, model, requests, options);
}

SHARDWISE_ON_CALL_BODY
Result<std::vector<Embedding>> embed_on_cuda(OpenCheckpoint& files, Model const& model,
                                             std::vector<std::vector<std::int32_t>> const& texts,
                                             EmbedOptions const& options) {
    return embed_on_backend<Cuda>(files, model, texts, options);
}

SHARDWISE_ON_CALL_BODY
Result<> serve_on_cuda(OpenCheckpoint& files, Model const& model, RunOptions const& options, NextRequest const& next,
                       OnGeneration const& on_generation) {
    return serve_on_backend<Cuda>(files, model, options, next, on_generation);
}

SHARDWISE_ON_CALL_BODY
Result<RunReport> run_in_group_on_cuda(HostCommunicator& world, OpenCheckpoint& files, Model const& model,
                                       std::vector<GenerationRequest> const& requests, RunOptions const& options) {
    return run_in_group_on_devices<Cuda>(world, files, model, requests, options);
}

SHARDWISE_ON_CALL_BODY
Result<std::vector<Bytes>> predict_on_cuda(OpenCheckpoint& files, Model const& model, ExecutorLimits const& limits,
                                           RunOptions const& options, bool are_threads) {
    return predict_on_devices<Cuda>(files, model, limits, options, are_threads);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
#endif
