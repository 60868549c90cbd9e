// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/device_kernels.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/device_token_chooser.hpp>
#include <shardwise/session/plan_stages.hpp>
#include <shardwise/session/run_options.hpp>
#include <shardwise/session/run_rank.hpp>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// As run_on_threads, on devices: rank r computes on the device `options.devices.of_rank(r)` of the back end (0 where none is named), and
/// its thread prepares what it loads. Ranks that share a device, or have one each, add up through the host's memory.
///
/// A template, so that a program without that back end does not compile it: with CUDA include backend/cuda.hpp, call it with Cuda in
/// one unit, and link shardwise::cuda and the kernels.
///
/// Errors  as run_in_group; unsupported by name for what the back end has no kernel for, and out_of_memory for what does not fit
///         what is free on the device, before anything is loaded
template <ComputeBackend Backend>
[[nodiscard]] Result<RunReport> run_on_devices(OpenCheckpoint& files, Model const& model,
                                               std::vector<GenerationRequest> const& requests,
                                               RunOptions const& options) {
    auto const begin = std::chrono::steady_clock::now();
    auto const stages = plan_stages(model, options);
    if (!stages) return stages.error();
    auto const parameters = StoredParameters::open(files, model);
    if (!parameters) return parameters.error();
    auto const headers = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    RunReport report;
    auto const run = [&](Threads& comm) -> Result<> {
        bool const is_first = comm.rank() == 0;
        HostCommunicator world(std::move(comm));
        auto ran = options.is_deterministic
                       ? detail::run_rank<Deterministic, Backend>(world, model, *parameters, requests, options, *stages)
                       : detail::run_rank<Fast, Backend>(world, model, *parameters, requests, options, *stages);
        if (!ran) return ran.error();
        if (is_first) report = std::move(*ran);
        return {};
    };
    auto const done = run_threads(static_cast<std::int32_t>(options.ranks()), run, {.timeout = options.timeout});
    if (!done) return done.error();
    report.load_seconds += headers;
    return report;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
