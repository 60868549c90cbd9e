// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/device_id.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What the runtime itself takes on a device before the first tensor: on a GPU its context and the code of the
/// libraries' kernels; nothing on cpu and disk, whose process memory is not budgeted.
///
/// Source  0.5 GiB is the round upper end of what a CUDA context with lazily loaded kernels shows in nvidia-smi (0.3 to
///         0.5 GiB from Volta to Hopper); eager loading of every kernel can double it (CUDA_MODULE_LOADING)
[[nodiscard]] constexpr Bytes runtime_overhead(DeviceClass device) {
    switch (device) {
        case DeviceClass::gpu: return Bytes{512LL << 20U};
        case DeviceClass::mps:
        case DeviceClass::cpu:
        case DeviceClass::disk: return Bytes{0};
    }
    return Bytes{0};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
