// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/model/files/checkpoint.hpp>

#include <string>

namespace shardwise::cli {

/// A checkpoint whose weights can be computed with.
struct RunnableModel {
    ModelSource source;
    Checkpoint checkpoint;
};

/// Finds the files of a MODEL and reads what they describe.
///
/// Errors  invalid_argument for a preset or a config without weights; unsupported for an unknown architecture; those of the
///         readers
[[nodiscard]] Result<RunnableModel> find_runnable(std::string const& name);

/// A rank computes a query head, a layer, an expert at least: more ranks are wrong usage, which only the model tells.
///
/// Errors  invalid_argument of --tp, --pp or --ep
[[nodiscard]] Result<> check_degrees(Model const& model, Parallelism const& degrees);
/// True of such an error, whatever rank speaks.
[[nodiscard]] bool is_degree_flag(Error const& error);

}  // namespace shardwise::cli
