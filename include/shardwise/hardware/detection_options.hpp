// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/visible_environment.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where detection looks.
struct DetectionOptions {
    /// NVIDIA's management library: a name that the system's loader finds, or a path.
    std::string nvml_library = "libnvidia-ml.so.1";
    /// AMD's, the first that exists; the plain name comes with the developers' package only.
    std::vector<std::string> amd_smi_libraries{"libamd_smi.so", "libamd_smi.so.26", "libamd_smi.so.25",
                                               "libamd_smi.so.24", "/opt/rocm/lib/libamd_smi.so"};
    /// The folder that holds the kernel's proc and sys.
    std::string root = "/";
    /// The variables that hide and order devices.
    VisibleEnvironment environment = VisibleEnvironment::current();
    /// How long all drivers together may take; zero or less: as long as they like, in the caller's own thread. A
    /// machine of eight GPUs without nvidia-persistenced takes 10 to 20 s.
    std::chrono::milliseconds deadline{60000};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
