// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/detection_options.hpp>

namespace shardwise::cli {

/// Where the program looks for devices. SHARDWISE_NVML and SHARDWISE_AMD_SMI name other vendor libraries,
/// SHARDWISE_SYSTEM_ROOT another folder for proc and sys: for tests and for odd installations. A program with more
/// rights than its user ignores them.
[[nodiscard]] DetectionOptions program_detection_options();

}  // namespace shardwise::cli
