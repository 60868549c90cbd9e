// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The variables by which users hide and order GPUs; nothing: not set, which is not the same as empty.
struct VisibleEnvironment {
    std::optional<std::string> cuda_visible_devices;
    std::optional<std::string> cuda_device_order;
    std::optional<std::string> rocr_visible_devices;
    std::optional<std::string> hip_visible_devices;

    /// As they are set for this process.
    [[nodiscard]] static VisibleEnvironment current() {
        auto const variable = [](char const* name) -> std::optional<std::string> {
            char const* const value = std::getenv(name);
            if (value == nullptr) return std::nullopt;
            return std::string(value);
        };
        return {variable("CUDA_VISIBLE_DEVICES"), variable("CUDA_DEVICE_ORDER"), variable("ROCR_VISIBLE_DEVICES"),
                variable("HIP_VISIBLE_DEVICES")};
    }
};

/// What the variables leave of a list of devices.
struct Visibility {
    /// Positions of the visible devices, in the order in which their runtime numbers them.
    std::vector<std::size_t> order;
    /// Why each device is hidden; "" for the visible ones.
    std::vector<std::string> reasons;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
