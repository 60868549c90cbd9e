// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/architecture.hpp>

namespace shardwise::cli {

/// A rank computes a query head, a layer, an expert at least: more ranks are wrong usage, which only the model tells.
///
/// Errors  invalid_argument of --tp, --pp or --ep
[[nodiscard]] Result<> check_degrees(Model const& model, Parallelism const& degrees);
/// True of such an error, whatever rank speaks.
[[nodiscard]] bool is_degree_flag(Error const& error);

}  // namespace shardwise::cli
