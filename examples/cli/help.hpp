// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// "shardwise 0.3.0".
[[nodiscard]] std::string version_text();
/// Breaks text at blanks into lines of at most `width` columns; words that are longer stand alone.
[[nodiscard]] std::vector<std::string> filled(std::string_view text, std::size_t width);
/// What `shardwise --help` prints.
[[nodiscard]] std::string program_help(std::size_t width);
/// What `shardwise COMMAND --help` prints.
[[nodiscard]] std::string command_help(Command const& command, std::size_t width);

}  // namespace shardwise::cli
