// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/detail/kernel_list.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The kernels that a program was linked with: what SHARDWISE_KERNELS said where the vendor's compiler made them. Defined in
/// kernels/compiled_kernels_launch.cuh.
template <class Api>
KernelList compiled_kernels();

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
