// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/hardware/detection.hpp>
#include <shardwise/hardware/system/system_files.hpp>
#include <shardwise/launch/launch_options.hpp>

#include <cstddef>
#include <cstdint>
#include <sched.h>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The devices of ranks, and what is to be said about them.
struct DevicesOfRanks {
    std::vector<LaunchedDevice> devices;
    std::vector<std::string> warnings;
};

namespace detail {

/// The variables that show a rank this device only. Numbers change with the order and the driver; UUIDs do not.
[[nodiscard]] inline Result<LaunchedDevice> masked_device(DetectedDevice const& found) {
    LaunchedDevice out;
    std::string const uuid(found.device.uuid.view());
    if (uuid.empty()) {
        return Error{ErrorCode::unsupported}
            .in(found.id)
            .because("has no UUID that a rank could be shown it by")
            .fix("launch without masks: all devices stay visible");
    }
    out.name = uuid;
    if (found.device.kind == DeviceKind::cuda) {
        out.variables = {{"CUDA_VISIBLE_DEVICES", uuid}};
    } else {
        // HIP reads these too, as numbers among those that ROCr shows.
        out.variables = {{"ROCR_VISIBLE_DEVICES", uuid}};
        out.unset = {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"};
    }
    return out;
}

/// Those of these processors that this process may run on.
[[nodiscard]] inline std::vector<std::int64_t> allowed_processors(std::vector<std::int64_t> const& processors) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
    std::vector<std::int64_t> out;
    for (auto const one : processors) {
        if (one < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(one), &allowed)) out.push_back(one);
    }
    return out;
}

}  // namespace detail

/// The devices of a machine's ranks: the first for the first rank, and so on, in the order in which their runtimes number
/// them. `is_masked`: each rank sees its own only; `is_bound`: it runs on the processors near to it. A machine without
/// accelerators masks and binds nothing, and a warning says so.
///
/// Errors  no_such_device where there are fewer devices to mask than ranks; unsupported where one has no UUID
[[nodiscard]] inline Result<DevicesOfRanks> devices_of_ranks(Detection const& detection, std::int32_t processes,
                                                             bool is_masked, bool is_bound) {
    DevicesOfRanks out;
    std::vector<DetectedDevice const*> found;
    for (auto const& device : detection.devices) {
        bool const is_gpu = device.device.kind == DeviceKind::cuda || device.device.kind == DeviceKind::hip;
        if (is_gpu && device.is_available) found.push_back(&device);
    }
    if (!is_masked && !is_bound) return out;
    if (found.empty()) {
        if (is_masked) out.warnings.emplace_back("there is no device to mask: the ranks run without");
        if (is_bound)
            out.warnings.emplace_back("there is no device whose near processors could be used: ranks are not bound");
        return out;
    }
    auto const count = static_cast<std::size_t>(processes);
    if (is_masked && found.size() < count) {
        return Error{ErrorCode::no_such_device}
            .in("devices")
            .because("are fewer than the ranks, each of which is to have its own")
            .got(static_cast<std::int64_t>(found.size()))
            .at_least(processes)
            .fix("launch fewer ranks, or launch without masks");
    }
    for (std::size_t i = 0; i < count; ++i) {
        auto const& device = *found[i % found.size()];
        LaunchedDevice own;
        if (is_masked) {
            auto masked = detail::masked_device(device);
            if (!masked) return masked.error();
            own = *std::move(masked);
        }
        if (is_bound) {
            auto const near = parse_number_list(device.near_processors);
            own.processors = detail::allowed_processors(near);
            if (own.processors.empty()) {
                out.warnings.push_back(device.id +
                                       (near.empty() ? " does not say which processors are near to it"
                                                     : " is near to none of the processors that may be used here") +
                                       ": its rank is not bound");
            }
        }
        out.devices.push_back(std::move(own));
    }
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
