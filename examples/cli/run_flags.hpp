// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/generation.hpp>
#include <shardwise/session/run_options.hpp>

#include "arguments.hpp"

#include <string>
#include <vector>

namespace shardwise::cli {

/// The flags that say how to generate: sampling and the number of tokens.
///
/// Errors  invalid_argument, which names the flag
[[nodiscard]] Result<GenerationRequest> read_request(Arguments const& arguments);

/// The flags that say how to run: degrees, threads, chunks, what weights and the cache are held in. `warnings` gets those of detection.
///
/// Errors  invalid_argument, which names the flag; as check_load_options
[[nodiscard]] Result<RunOptions> read_run_options(Arguments const& arguments, std::vector<std::string>& warnings);

/// Checks that stages and groups of experts, which share the devices of --devices, leave none of them idle.
///
/// Errors  invalid_argument
[[nodiscard]] Result<> check_devices_are_used(Arguments const& arguments, RunOptions const& options);

}  // namespace shardwise::cli
