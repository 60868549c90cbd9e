// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardwise::cli {

/// The manual page shardwise(1) in roff's man macros, made from the table of commands.
[[nodiscard]] std::string man_page();

}  // namespace shardwise::cli
