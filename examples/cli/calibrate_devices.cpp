// SPDX-License-Identifier: Apache-2.0
#include "calibrate_devices.hpp"

#include <shardwise/calibrate/calibrate_device.hpp>
#include <shardwise/calibrate/measure_peers.hpp>
#include <shardwise/session/without_vendor.hpp>

#if defined(SHARDWISE_HAS_CUDA)
#include <shardwise/backend/cuda.hpp>
#endif
#if defined(SHARDWISE_HAS_HIP)
#include <shardwise/backend/hip.hpp>
#endif

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace shardwise::cli {

namespace {

template <class B>
[[nodiscard]] [[maybe_unused]] Result<CalibratedDevices> measure_devices(std::vector<std::int32_t> const& numbers,
                                                                         DeviceCalibrationOptions const& options,
                                                                         bool is_quick, Observer const& observer) {
    CalibratedDevices found;
    for (auto const number : numbers) {
        auto const context = B::Context::open({.device = number});
        if (!context) return context.error();
        auto measured = calibrate_device(**context, options, observer);
        if (!measured) return measured.error();
        found.devices.push_back(*std::move(measured));
    }
    std::vector<std::int32_t> sizes{2, 4, 8};
    auto const count = static_cast<std::int32_t>(numbers.size());
    if (count > 2 && count != 4 && count < 8) sizes.push_back(count);
    if (!B::VendorApi::co_resident_blocks) {
        found.warnings.push_back(
            "sums over ranks on devices were not measured: kernels of this vendor do not run at once");
        return found;
    }
    PeerProbe probe;
    if (is_quick) probe.rounds = 5;
    for (auto const ranks : sizes) {
        if (count > 1 && ranks > count) continue;
        auto const times = measure_peers<typename B::VendorApi>(numbers, ranks, probe);
        if (times) {
            for (auto const& time : *times) found.all_reduce.push_back(time);
            continue;
        }
        found.warnings.push_back("sums over " + std::to_string(ranks) +
                                 " ranks on devices were not measured: " + times.error().message());
        // What failed once may take as long again.
        break;
    }
    return found;
}

}  // namespace

Result<CalibratedDevices> calibrate_devices(RunDevices const& devices, bool is_quick, Observer const& observer) {
    DeviceCalibrationOptions options;
    if (is_quick) {
        options.probe_bytes = Bytes{std::int64_t{32} << 20U};
        options.probe_time = std::chrono::milliseconds(20);
    }
    switch (devices.vendor) {
        case DeviceVendor::cuda:
#if defined(SHARDWISE_HAS_CUDA)
            return measure_devices<Cuda>(devices.numbers, options, is_quick, observer);
#else
            break;
#endif
        case DeviceVendor::hip:
#if defined(SHARDWISE_HAS_HIP)
            return measure_devices<Hip>(devices.numbers, options, is_quick, observer);
#else
            break;
#endif
    }
    (void)observer;
    return detail::without_vendor(devices.vendor);
}

}  // namespace shardwise::cli
