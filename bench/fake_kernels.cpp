// SPDX-License-Identifier: Apache-2.0
// The device side of the benchmarks for the fake vendor (tests/device/fake_vendor.hpp): what kernels/instantiate/ lists, compiled for it.
// clang-format off
#include "fake_vendor.hpp"

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {
using KernelApi = testing::FakeApi;
}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail

#include <shardwise/kernels/instantiate.cu>
// clang-format on
