// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/calibrate/product_rates.hpp>
#include <shardwise/hardware/attention_rate.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a device was measured to do.
///
/// Units  bytes per second, seconds
struct DeviceCalibration {
    /// "cuda" or "hip", and the number that its runtime gives it.
    std::string_view vendor;
    std::int32_t device = 0;
    /// The vendor's copy within the device's memory: what is read and what is written count.
    double memory = 0.0;
    /// Copies between pinned memory of the host and the device's, of what is copied.
    double host_to_device = 0.0;
    double device_to_host = 0.0;
    /// Of a copy that is too short for its bytes to count.
    double copy_latency = 0.0;
    /// From one kernel's end to the end of the next one, which does nothing: in a graph where the device takes them down.
    double launch = 0.0;
    /// For each format first large products, then those with one row.
    std::vector<ProductRate> products;
    /// For each element type of a cache by length.
    std::vector<AttentionRate> attention;

    /// As `shardwise run --devices` and detection name it: "cuda:0".
    [[nodiscard]] std::string id() const { return std::string(vendor) + ":" + std::to_string(device); }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
