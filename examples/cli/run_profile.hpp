// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/block_times.hpp>

#include "arguments.hpp"

#include <cstdint>
#include <string>

namespace shardwise::cli {

/// Checks what --profile-out goes with: a profile holds the times of whole layers, not of groups of which
/// each has a part of the experts.
///
/// Errors  invalid_argument
[[nodiscard]] Result<> check_profile_out(Arguments const& arguments);

/// Writes what a run of one sequence measured, for `map --profile`; the device is called as `detect` calls it.
///
/// Errors  invalid_argument where nothing was measured; file_unwritable
[[nodiscard]] Result<> write_run_profile(std::string const& path, std::string const& model, BlockTimes const& times,
                                         std::int64_t context);

}  // namespace shardwise::cli
