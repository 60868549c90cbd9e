// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/device_id.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One entry of a device map as Hugging Face writes it: everything under `prefix` is on `device`; "" is the whole model.
struct MapEntry {
    std::string prefix;
    DeviceId device{};

    friend bool operator==(MapEntry const&, MapEntry const&) = default;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
