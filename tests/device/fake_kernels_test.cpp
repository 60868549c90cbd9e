// SPDX-License-Identifier: Apache-2.0
// The device side for the fake vendor: what kernels/instantiate/ lists, compiled for it.
// The device code is written in names that the emulator brings.
// Bounds of arrays are int there, which device compilers say nothing of.
#pragma GCC diagnostic ignored "-Wsign-conversion"
#if defined(__clang__)
// compiled_kernels is specialised before it is instantiated.
#pragma clang diagnostic ignored "-Winstantiation-after-specialization"
#endif
/// The devices that the kernels are for.
#define SHARDWISE_ARCHITECTURES fake16, fake32

// clang-format off
#include "fake_vendor.hpp"
#include "launch_body.hpp"

#include <shardwise/kernels/device/compiled_kernels.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

using KernelApi = testing::FakeApi;

/// A test says which kernels there are; all have been compiled.
template <>
KernelList compiled_kernels<testing::FakeApi>() {
    return KernelList{testing::FakeMachine::get().kernels};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail

#include <shardwise/backend/device.cuh>
#include <shardwise/kernels/instantiate.cu>
// clang-format on

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

template void DeviceBackend<testing::FakeApi>::launch(std::int64_t, testing::AddIndex, DeviceStream<testing::FakeApi>&,
                                                      std::int64_t);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
