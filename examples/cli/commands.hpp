#pragma once

#include <shardwise/core/result.hpp>

#include "arguments.hpp"

namespace shardwise::cli {

[[nodiscard]] ExitCode run_estimate(Arguments const& arguments);
[[nodiscard]] ExitCode run_map(Arguments const& arguments);

}  // namespace shardwise::cli
