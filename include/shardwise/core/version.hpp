#pragma once

/// The version of this copy of shardwise. CMake, Conan and vcpkg read it from these three lines.
#define SHARDWISE_VERSION_MAJOR 0
#define SHARDWISE_VERSION_MINOR 2
#define SHARDWISE_VERSION_PATCH 0

namespace shardwise::inline v0_2_0 {

/// A released version, ordered by its three numbers.
struct Version {
    int major_number;
    int minor_number;
    int patch_number;
};

/// The version that the including translation unit was compiled with.
inline constexpr Version library_version{SHARDWISE_VERSION_MAJOR, SHARDWISE_VERSION_MINOR, SHARDWISE_VERSION_PATCH};

}  // namespace shardwise::inline v0_2_0
