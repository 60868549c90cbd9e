// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How long a module took in one step.
///
/// Units  seconds; negative where it was not measured
struct ModuleTime {
    /// Its full name, as in a device map: "model.layers.0".
    std::string module;
    /// One pass over all prompts of the batch.
    double prefill = -1.0;
    /// One token of every sequence, at the end of the context.
    double decode = -1.0;
};

/// The times on one kind of device for one batch and context.
struct DeviceProfile {
    /// As `--devices` and `shardwise detect` name it.
    std::string device;
    std::int64_t batch = 1;
    /// Tokens of each sequence.
    std::int64_t context = 1;
    /// How many runs each time is the mean of.
    std::int64_t repeat = 1;
    std::vector<ModuleTime> modules;
};

/// Measured times of a model's modules, of which each is computed whole by one device.
struct Profile {
    /// What was measured, for people.
    std::string model;
    std::vector<DeviceProfile> devices;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
