// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/device/compiled_kernels.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api>
KernelList compiled_kernels() {
    return kernel_list<Api>;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
