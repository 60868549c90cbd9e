// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include "arguments.hpp"

namespace shardwise::cli {

/// Checks the flags of `train` whose other values do not run yet: they are refused by name, never ignored.
///
/// Errors  unsupported with what runs; no_such_device for --devices; unknown_name and invalid_argument for words that no value has
[[nodiscard]] Result<> check_trained(Arguments const& arguments);

}  // namespace shardwise::cli
