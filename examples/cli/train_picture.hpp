// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include "train_answer.hpp"

#include <string>

namespace shardwise::cli {

/// The curve of loss and validation over the steps, as SVG for light and dark pages.
[[nodiscard]] std::string train_picture(TrainAnswer const& answer);

/// Draws it into a file.
///
/// Errors  file_unwritable
[[nodiscard]] Result<> write_train_picture(std::string const& path, TrainAnswer const& answer);

}  // namespace shardwise::cli
