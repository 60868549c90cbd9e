// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <string>
#include <string_view>

namespace shardwise::cli {

/// The MODEL that comes with the program.
inline constexpr std::string_view demo_name = "demo";

/// What a MODEL is to be looked for as: for "demo" the folder share/shardwise/demo beside the program, or above it, as in a source
/// tree that it was built in; all others as they are.
///
/// Errors  file_not_found where no folder is there
[[nodiscard]] Result<std::string> place_of_model(std::string const& model);

}  // namespace shardwise::cli
