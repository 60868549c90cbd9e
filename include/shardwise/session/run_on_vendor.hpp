// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/run_on_cuda.hpp>
#include <shardwise/session/run_on_hip.hpp>

#include <shardwise/core/error.hpp>
#include <shardwise/session/run_devices.hpp>

#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Why a program that was built without a vendor's back end cannot compute on its devices.
[[nodiscard]] inline Error without_vendor(DeviceVendor vendor) {
    return Error{ErrorCode::no_such_device}
        .in(name_of(vendor))
        .because("is not in this program, which was built for the processor alone")
        .fix(vendor == DeviceVendor::cuda ? "build it with -DSHARDWISE_CUDA=ON" : "build it with -DSHARDWISE_HIP=ON");
}

/// Runs on the devices that the options name.
///
/// Errors  no_such_device where the program was built without the vendor; those of run_on_devices
template <class Files>
[[nodiscard]] Result<RunReport> run_on_vendor(Files& files, Model const& model,
                                              std::vector<GenerationRequest> const& requests,
                                              RunOptions const& options) {
#if defined(SHARDWISE_HAS_CUDA)
    if (options.devices.vendor == DeviceVendor::cuda) return run_on_cuda(files, model, requests, options);
#endif
#if defined(SHARDWISE_HAS_HIP)
    if (options.devices.vendor == DeviceVendor::hip) return run_on_hip(files, model, requests, options);
#endif
    return without_vendor(options.devices.vendor);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
