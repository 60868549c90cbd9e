// SPDX-License-Identifier: Apache-2.0
#include "calibrate_devices.hpp"

#include <shardwise/calibrate/calibrate_device.hpp>
#include <shardwise/session/without_vendor.hpp>

#if defined(SHARDWISE_HAS_CUDA)
#include <shardwise/backend/cuda.hpp>
#endif
#if defined(SHARDWISE_HAS_HIP)
#include <shardwise/backend/hip.hpp>
#endif

#include <chrono>
#include <cstdint>
#include <utility>

namespace shardwise::cli {

namespace {

template <class B>
[[nodiscard]] [[maybe_unused]] Result<std::vector<DeviceCalibration>> measure_devices(
    std::vector<std::int32_t> const& numbers, DeviceCalibrationOptions const& options, Observer const& observer) {
    std::vector<DeviceCalibration> found;
    for (auto const number : numbers) {
        auto const context = B::Context::open({.device = number});
        if (!context) return context.error();
        auto measured = calibrate_device(**context, options, observer);
        if (!measured) return measured.error();
        found.push_back(*std::move(measured));
    }
    return found;
}

}  // namespace

Result<std::vector<DeviceCalibration>> calibrate_devices(RunDevices const& devices, bool is_quick,
                                                         Observer const& observer) {
    DeviceCalibrationOptions options;
    if (is_quick) {
        options.probe_bytes = Bytes{std::int64_t{32} << 20U};
        options.probe_time = std::chrono::milliseconds(20);
    }
    switch (devices.vendor) {
        case DeviceVendor::cuda:
#if defined(SHARDWISE_HAS_CUDA)
            return measure_devices<Cuda>(devices.numbers, options, observer);
#else
            break;
#endif
        case DeviceVendor::hip:
#if defined(SHARDWISE_HAS_HIP)
            return measure_devices<Hip>(devices.numbers, options, observer);
#else
            break;
#endif
    }
    (void)observer;
    return detail::without_vendor(devices.vendor);
}

}  // namespace shardwise::cli
