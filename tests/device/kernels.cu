// SPDX-License-Identifier: Apache-2.0
// The device side of the tests, for nvcc, hipcc, and g++ with HIP on the CPU.
#include <shardwise/backend/device.cuh>
#if !defined(SHARDWISE_TEST_KERNELS_ELSEWHERE)
#include <shardwise/kernels/instantiate.cu>
#endif

#include "launch_body.hpp"

namespace shardwise::inline SHARDWISE_NAMESPACE {

template void DeviceBackend<detail::KernelApi>::launch(std::int64_t, testing::AddIndex,
                                                       DeviceStream<detail::KernelApi>&, std::int64_t);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
