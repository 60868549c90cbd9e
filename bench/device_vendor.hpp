// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(SHARDWISE_HAS_CUDA)
#include <shardwise/backend/cuda.hpp>
#elif defined(SHARDWISE_HAS_HIP)
#include <shardwise/backend/hip.hpp>
#else
// tests/device: what it measures is no device's time. It shows that a benchmark runs.
#include "fake_vendor.hpp"
#endif

#include <stdexcept>
#include <string>

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
#include <chrono>
#include <memory>
#endif

/// The vendor that a benchmark of devices is compiled for, and its clock: the library's own events carry no time.
namespace bench {

#if defined(SHARDWISE_HAS_CUDA)

using Device = shardwise::Cuda;
inline constexpr bool is_emulated = false;

inline void check_vendor(cudaError_t status, char const* call) {
    if (status != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}

/// A point in a stream that has a time.
class TimedEvent {
public:
    TimedEvent() { check_vendor(cudaEventCreate(&event_), "cudaEventCreate"); }
    TimedEvent(TimedEvent const&) = delete;
    TimedEvent& operator=(TimedEvent const&) = delete;
    ~TimedEvent() { (void)cudaEventDestroy(event_); }

    void record(Device::Stream& stream) { check_vendor(cudaEventRecord(event_, stream.native()), "cudaEventRecord"); }
    /// Seconds from another point to this one; both are passed.
    [[nodiscard]] double since(TimedEvent const& first) const {
        float milliseconds = 0.0F;
        check_vendor(cudaEventElapsedTime(&milliseconds, first.event_, event_), "cudaEventElapsedTime");
        return static_cast<double>(milliseconds) * 1e-3;
    }

private:
    cudaEvent_t event_ = nullptr;
};

#elif defined(SHARDWISE_HAS_HIP)

using Device = shardwise::Hip;
inline constexpr bool is_emulated = false;

inline void check_vendor(hipError_t status, char const* call) {
    if (status != hipSuccess) throw std::runtime_error(std::string(call) + ": " + hipGetErrorString(status));
}

/// A point in a stream that has a time.
class TimedEvent {
public:
    TimedEvent() { check_vendor(hipEventCreate(&event_), "hipEventCreate"); }
    TimedEvent(TimedEvent const&) = delete;
    TimedEvent& operator=(TimedEvent const&) = delete;
    ~TimedEvent() { (void)hipEventDestroy(event_); }

    void record(Device::Stream& stream) { check_vendor(hipEventRecord(event_, stream.native()), "hipEventRecord"); }
    /// Seconds from another point to this one; both are passed.
    [[nodiscard]] double since(TimedEvent const& first) const {
        float milliseconds = 0.0F;
        check_vendor(hipEventElapsedTime(&milliseconds, first.event_, event_), "hipEventElapsedTime");
        return static_cast<double>(milliseconds) * 1e-3;
    }

private:
    hipEvent_t event_ = nullptr;
};

#else

using Device = shardwise::testing::Fake;
inline constexpr bool is_emulated = true;

/// A point in a stream that has a time.
class TimedEvent {
public:
    void record(Device::Stream& stream) {
        stream.native()->put([at = at_] { *at = std::chrono::steady_clock::now(); });
    }
    /// Seconds from another point to this one; both are passed.
    [[nodiscard]] double since(TimedEvent const& first) const {
        return std::chrono::duration<double>(*at_ - *first.at_).count();
    }

private:
    using Time = std::chrono::steady_clock::time_point;
    std::shared_ptr<Time> at_ = std::make_shared<Time>();
};

#endif

}  // namespace bench
