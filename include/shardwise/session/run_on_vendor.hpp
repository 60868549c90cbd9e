// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/run_devices.hpp>
#include <shardwise/session/run_on_cuda.hpp>
#include <shardwise/session/run_on_hip.hpp>
#include <shardwise/session/without_vendor.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Whether the program was built with a vendor's back end.
[[nodiscard]] constexpr bool has_vendor(DeviceVendor vendor) {
#if defined(SHARDWISE_HAS_CUDA)
    if (vendor == DeviceVendor::cuda) return true;
#endif
#if defined(SHARDWISE_HAS_HIP)
    if (vendor == DeviceVendor::hip) return true;
#endif
    return static_cast<void>(vendor), false;
}

// On the devices that the options name.
//
// Errors  no_such_device where the program was built without the vendor; those of run_on_devices

template <class Files>
[[nodiscard]] Result<RunReport> run_on_vendor([[maybe_unused]] Files& files, [[maybe_unused]] Model const& model,
                                              [[maybe_unused]] std::vector<GenerationRequest> const& requests,
                                              RunOptions const& options) {
#if defined(SHARDWISE_HAS_CUDA)
    if (options.devices.vendor == DeviceVendor::cuda) return run_on_cuda(files, model, requests, options);
#endif
#if defined(SHARDWISE_HAS_HIP)
    if (options.devices.vendor == DeviceVendor::hip) return run_on_hip(files, model, requests, options);
#endif
    return without_vendor(options.devices.vendor);
}

template <class Files>
[[nodiscard]] Result<std::vector<Embedding>> embed_on_vendor(
    [[maybe_unused]] Files& files, [[maybe_unused]] Model const& model,
    [[maybe_unused]] std::vector<std::vector<std::int32_t>> const& texts, EmbedOptions const& options) {
#if defined(SHARDWISE_HAS_CUDA)
    if (options.devices.vendor == DeviceVendor::cuda) return embed_on_cuda(files, model, texts, options);
#endif
#if defined(SHARDWISE_HAS_HIP)
    if (options.devices.vendor == DeviceVendor::hip) return embed_on_hip(files, model, texts, options);
#endif
    return without_vendor(options.devices.vendor);
}

template <class Files>
[[nodiscard]] Result<> serve_on_vendor([[maybe_unused]] Files& files, [[maybe_unused]] Model const& model,
                                       RunOptions const& options, [[maybe_unused]] NextRequest const& next,
                                       [[maybe_unused]] OnGeneration const& on_generation) {
#if defined(SHARDWISE_HAS_CUDA)
    if (options.devices.vendor == DeviceVendor::cuda) return serve_on_cuda(files, model, options, next, on_generation);
#endif
#if defined(SHARDWISE_HAS_HIP)
    if (options.devices.vendor == DeviceVendor::hip) return serve_on_hip(files, model, options, next, on_generation);
#endif
    return without_vendor(options.devices.vendor);
}

template <class Files>
[[nodiscard]] Result<RunReport> run_in_group_on_vendor([[maybe_unused]] HostCommunicator& world,
                                                       [[maybe_unused]] Files& files,
                                                       [[maybe_unused]] Model const& model,
                                                       [[maybe_unused]] std::vector<GenerationRequest> const& requests,
                                                       RunOptions const& options) {
#if defined(SHARDWISE_HAS_CUDA)
    if (options.devices.vendor == DeviceVendor::cuda)
        return run_in_group_on_cuda(world, files, model, requests, options);
#endif
#if defined(SHARDWISE_HAS_HIP)
    if (options.devices.vendor == DeviceVendor::hip) return run_in_group_on_hip(world, files, model, requests, options);
#endif
    return without_vendor(options.devices.vendor);
}

template <class Files>
[[nodiscard]] Result<std::vector<Bytes>> predict_on_vendor([[maybe_unused]] Files& files,
                                                           [[maybe_unused]] Model const& model,
                                                           [[maybe_unused]] ExecutorLimits const& limits,
                                                           RunOptions const& options,
                                                           [[maybe_unused]] bool are_threads) {
#if defined(SHARDWISE_HAS_CUDA)
    if (options.devices.vendor == DeviceVendor::cuda)
        return predict_on_cuda(files, model, limits, options, are_threads);
#endif
#if defined(SHARDWISE_HAS_HIP)
    if (options.devices.vendor == DeviceVendor::hip) return predict_on_hip(files, model, limits, options, are_threads);
#endif
    return without_vendor(options.devices.vendor);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
