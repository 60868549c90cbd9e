// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/session/run_devices.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Why a program that was built without a vendor's back end cannot compute on its devices.
[[nodiscard]] inline Error without_vendor(DeviceVendor vendor) {
    return Error{ErrorCode::no_such_device}
        .in(name_of(vendor))
        .because("is not in this program, which was built for the processor alone")
        .fix(vendor == DeviceVendor::cuda ? "build it with -DSHARDWISE_CUDA=ON" : "build it with -DSHARDWISE_HIP=ON");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
