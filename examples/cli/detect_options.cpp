// SPDX-License-Identifier: Apache-2.0
#include "detect_options.hpp"

#include <cstdlib>
#include <unistd.h>

namespace shardwise::cli {

DetectionOptions program_detection_options() {
    DetectionOptions options;
    bool const has_more_rights = ::getuid() != ::geteuid() || ::getgid() != ::getegid();
    auto const variable = [has_more_rights](char const* name) -> char const* {
        char const* const value = has_more_rights ? nullptr : std::getenv(name);
        return value == nullptr || *value == '\0' ? nullptr : value;
    };
    if (char const* const library = variable("SHARDWISE_NVML")) options.nvml_library = library;
    if (char const* const library = variable("SHARDWISE_AMD_SMI")) options.amd_smi_libraries = {library};
    if (char const* const root = variable("SHARDWISE_SYSTEM_ROOT")) options.root = root;
    return options;
}

}  // namespace shardwise::cli
