// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_launch.cuh>
#include <shardwise/backend/device.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

template <class Body>
__global__ void run_ranges(std::int64_t count, std::int64_t grain, Body body) {
    auto const threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    auto const first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (auto begin = first * grain; begin < count; begin += threads * grain) {
        body(begin, begin + grain < count ? begin + grain : count);
    }
}

}  // namespace detail

template <class Api>
template <class Body>
void DeviceBackend<Api>::launch(std::int64_t count, Body body, Stream& stream, std::int64_t grain) {
    if (count <= 0) return;
    constexpr int threads = 256;
    // Several waves on any device; what is more runs in the kernel's loop.
    constexpr std::int64_t max_blocks = 1 << 16;
    // No piece is longer than all of it, so that threads which have none do not count beyond 63 bits.
    auto const piece = std::clamp<std::int64_t>(grain, 1, count);
    auto const pieces = (count - 1) / piece + 1;
    auto const blocks = std::min(max_blocks, (pieces - 1) / threads + 1);
    stream.submit([&](typename Api::Stream native) {
        return detail::DeviceLaunch<Api>::launch("launch", &detail::run_ranges<Body>, blocks, threads, native, count,
                                                 piece, body);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
