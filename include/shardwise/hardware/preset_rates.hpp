// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detected_device.hpp>
#include <shardwise/hardware/presets.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Gives a detected device the rates and the bandwidth of the preset of its name and memory; false where there is none.
inline bool take_preset_rates(DetectedDevice& found) {
    auto const* const preset = find_device_preset_for(found.name, found.device.memory);
    if (preset == nullptr) return false;
    found.preset = preset->name.view();
    found.device.peak = preset->peak;
    found.device.bandwidth = preset->bandwidth;
    found.device.network = preset->network;
    if (found.device.architecture.empty()) found.device.architecture = preset->architecture;
    return true;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
