#pragma once

#include "arguments.hpp"

#include <shardwise/core/result.hpp>

namespace shardwise::cli {

[[nodiscard]] ExitCode run_estimate(Arguments const& arguments);
[[nodiscard]] ExitCode run_map(Arguments const& arguments);

}  // namespace shardwise::cli
