// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/checkpoint.hpp>

#include <cstdint>
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

/// A rank computes a query head at least: more ranks are wrong usage, which only the model tells.
///
/// Errors  invalid_argument of --tp
[[nodiscard]] Result<> check_heads(ModelConfig const& config, std::int64_t tp);

}  // namespace shardwise::cli
