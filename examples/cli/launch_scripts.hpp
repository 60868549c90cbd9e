// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "arguments.hpp"

namespace shardwise::cli {

/// Whether `launch` is asked for what starts a plan elsewhere: a launcher is named, or one of the flags is given that go
/// with one.
[[nodiscard]] bool is_launch_script(Arguments const& arguments);

/// Prints what starts a plan elsewhere.
[[nodiscard]] ExitCode launch_scripts_command(Arguments const& arguments);

}  // namespace shardwise::cli
