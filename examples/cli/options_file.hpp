// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include "options.hpp"

#include <string>

namespace shardwise::cli {

/// Takes a command's options out of a JSON file: {"lr": 0.003, "data": ["a.txt"], "from-scratch": true}. Names are those of the
/// flags, without their dashes in front; `_` counts as `-`. What the command line gave stays.
///
/// Errors  those of reading a file; unknown_name with the nearest name; invalid_field for a value that no flag takes
[[nodiscard]] Result<> take_options_file(std::string const& path, Command const& command, Arguments& arguments);

}  // namespace shardwise::cli
