// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/device_key.hpp>
#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/json/writer.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How much of a model a device should hold at most.
struct MaxMemoryAdvice {
    DeviceId device{};
    Bytes limit{};
};

/// A limit for each device that may be used: a share of its memory, never above what is free, in whole MiB.
///
/// Order  as the devices
[[nodiscard]] inline std::vector<MaxMemoryAdvice> advise_max_memory(std::span<DetectedDevice const> devices,
                                                                    double utilization = default_utilization) {
    std::vector<MaxMemoryAdvice> advice;
    for (auto const& found : devices) {
        auto const& device = found.device;
        if (!found.is_available || device.id.kind == DeviceClass::disk) continue;
        auto const limit = std::min(share_of(device.memory, utilization), device.available());
        advice.push_back({device.id, Bytes{limit.count() >> 20U << 20U}});
    }
    return advice;
}

/// The advice as accelerate's `max_memory` in JSON, which `--max-memory` takes too: {"0": "36864MiB", "cpu":
/// "57344MiB"}.
[[nodiscard]] inline std::string max_memory_json(std::span<MaxMemoryAdvice const> advice) {
    JsonWriter json;
    json.begin_object();
    for (auto const& entry : advice) {
        json.member(device_key(entry.device), std::to_string(entry.limit.count() >> 20U) + "MiB");
    }
    json.end_object();
    return std::move(json).text();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
