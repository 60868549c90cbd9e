// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/device_kernels.hpp>
#include <shardwise/session/check_stage_devices.hpp>
#include <shardwise/session/device_token_chooser.hpp>
#include <shardwise/session/embed_on_backend.hpp>
#include <shardwise/session/run_opened.hpp>
#include <shardwise/session/run_options.hpp>
#include <shardwise/session/run_over_group.hpp>
#include <shardwise/session/run_over_threads.hpp>
#include <shardwise/session/serve_on_backend.hpp>

#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// One rank of a run of which the options say where it computes: on a device of the back end, or on the processor.
template <ComputeBackend Backend>
[[nodiscard]] Result<RunReport> run_placed_rank(HostCommunicator& world, Model const& model,
                                                StoredParameters const& parameters,
                                                std::vector<GenerationRequest> const& requests,
                                                RunOptions const& options, std::vector<StageBlocks> const& stages,
                                                typename RankCommunicator<Backend>::Meeting* meeting) {
    if (options.devices.is_processor(world.rank())) {
        auto own = options;
        own.devices = {};
        return run_opened(world, model, parameters, requests, own, stages);
    }
    return options.is_deterministic
               ? run_rank<Deterministic, Backend>(world, model, parameters, requests, options, stages, meeting)
               : run_rank<Fast, Backend>(world, model, parameters, requests, options, stages, meeting);
}

}  // namespace detail

/// As run_on_threads, on devices: rank r computes on the device `options.devices.of_rank(r)` of the back end (0 where none is named), and
/// its thread prepares what it loads; or on the processor, where that is what its stage has. Ranks add up as `options.comm` says: by
/// kernels over each other's memory, or through the host's, through which stages hand on.
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
    if (auto const checked = detail::check_stage_devices(options); !checked) return checked.error();
    typename detail::RankCommunicator<Backend>::Meeting meeting(static_cast<std::int32_t>(options.ranks()));
    return detail::run_over_threads(
        files, model, options, [&](auto& world, auto const& parameters, auto const& stages) {
            return detail::run_placed_rank<Backend>(world, model, parameters, requests, options, stages, &meeting);
        });
}

/// As run_in_group, on devices: ranks that are processes of one machine add up over each other's memory where each has a device, else
/// through the host's.
///
/// Errors  as run_on_devices
template <ComputeBackend Backend>
[[nodiscard]] Result<RunReport> run_in_group_on_devices(HostCommunicator& world, OpenCheckpoint& files,
                                                        Model const& model,
                                                        std::vector<GenerationRequest> const& requests,
                                                        RunOptions const& options) {
    if (auto const checked = detail::check_stage_devices(options); !checked) return checked.error();
    return detail::run_over_group(world, files, model, options, [&](auto const& parameters, auto const& stages) {
        return detail::run_placed_rank<Backend>(world, model, parameters, requests, options, stages, nullptr);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
