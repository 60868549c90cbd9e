// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>

#include <optional>
#include <string>

namespace shardwise::cli {

/// What tells a model from all others: of the contents of its config.json and its files of weights, not their paths. All are read.
///
/// Errors  as OpenCheckpoint; file_not_found, file_unreadable
[[nodiscard]] Result<std::string> hash_of_model(OpenCheckpoint& files);

/// What is told of a config whose dropout other trainers take from it: this one drops what --dropout says. Nothing where there is none.
[[nodiscard]] std::optional<std::string> unused_dropout(OpenCheckpoint& files);

}  // namespace shardwise::cli
