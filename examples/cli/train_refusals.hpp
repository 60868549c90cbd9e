// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include "arguments.hpp"

#include <optional>
#include <string_view>

namespace shardwise::cli {

/// Checks the flags of `train` whose other values do not run yet: they are refused by name, never ignored.
///
/// Errors  unsupported with what runs; no_such_device for --devices; unknown_name and invalid_argument for words that no value has
[[nodiscard]] Result<> check_trained(Arguments const& arguments);

/// Why `train` has no such flag, of those that one might look for; nothing for all others.
[[nodiscard]] std::optional<Error> untrained_flag(std::string_view word);

/// Of options that exclude each other and come from a file, those that were given beside it win; of those that a report of a run has side by
/// side, the numbers that it found.
void let_flags_win(Arguments const& flags, Arguments& arguments);

}  // namespace shardwise::cli
