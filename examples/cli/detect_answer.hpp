// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detection.hpp>
#include <shardwise/hardware/find_device.hpp>
#include <shardwise/hardware/recommend_devices.hpp>

#include "console.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// What `detect` found out.
struct DetectAnswer {
    Detection detection;
    Recommendation recommendation;
    /// The model that devices are recommended for; "" where none was given.
    std::string model;
    Bytes needed{};
    /// Of --devices: which of them may be used.
    std::optional<std::vector<DeviceAnswer>> checked;
    std::vector<std::string> warnings;

    /// False where one of --devices may not be used.
    [[nodiscard]] bool all_available() const {
        if (!checked) return true;
        for (auto const& answer : *checked) {
            if (!answer.is_available) return false;
        }
        return true;
    }
};

[[nodiscard]] std::string detect_json(DetectAnswer const& answer);
[[nodiscard]] std::string detect_text(DetectAnswer const& answer, Style const& style);

}  // namespace shardwise::cli
