// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"

#include <span>
#include <string_view>

namespace shardwise::cli {

[[nodiscard]] ExitCode run_estimate(Arguments const& arguments);
[[nodiscard]] ExitCode run_map(Arguments const& arguments);
[[nodiscard]] ExitCode run_plan(Arguments const& arguments);
[[nodiscard]] ExitCode run_detect(Arguments const& arguments);
[[nodiscard]] ExitCode run_monitor(Arguments const& arguments);
[[nodiscard]] ExitCode run_launch(Arguments const& arguments);
[[nodiscard]] ExitCode run_calibrate(Arguments const& arguments);
[[nodiscard]] ExitCode run_support(Arguments const& arguments);
[[nodiscard]] ExitCode run_run(Arguments const& arguments);
[[nodiscard]] ExitCode run_train(Arguments const& arguments);
[[nodiscard]] ExitCode run_deploy(Arguments const& arguments);
[[nodiscard]] ExitCode run_embed(Arguments const& arguments);
[[nodiscard]] ExitCode run_tokenize(Arguments const& arguments);
[[nodiscard]] ExitCode run_list(Arguments const& arguments);
[[nodiscard]] ExitCode run_help(Arguments const& arguments);
[[nodiscard]] ExitCode run_completion(Arguments const& arguments);
[[nodiscard]] ExitCode run_man(Arguments const& arguments);

/// The program's commands. A new one is a row here, its options a table in options.cpp, its flags members of Arguments;
/// parsing, --help, the manual and the completions follow.
[[nodiscard]] std::span<Command const> commands();

/// The command of this name; null where there is none.
[[nodiscard]] Command const* find_command(std::string_view name);

/// "Exit status: 0 done, ...".
inline constexpr std::string_view exit_status_text =
    "Exit status: 0 done, 1 failure, 2 usage, 3 the plan does not fit, 4 no such device, 130 interrupted.";

}  // namespace shardwise::cli
