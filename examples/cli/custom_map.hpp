// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/placement/custom.hpp>

#include <string>
#include <vector>

namespace shardwise::cli {

/// Reads a custom map: {prefix: device}, devices as 0, "0", "cuda:0", "cpu", "disk", "mps".
///
/// Errors  malformed_file, unknown_name for a device; file_not_found, file_unreadable
[[nodiscard]] Result<List<MapEntry>> read_custom_map(std::string const& path);

}  // namespace shardwise::cli
