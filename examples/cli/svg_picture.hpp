// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/plan/picture.hpp>

#include "arguments.hpp"
#include "map_answer.hpp"

#include <string>

namespace shardwise::cli {

/// The picture of what `map` found.
[[nodiscard]] Picture map_picture(MapRequest const& request, MapAnswer const& answer);

/// Whether --svg, where it was given, names a file.
///
/// Errors  invalid_argument for an empty path and for "-"
[[nodiscard]] Result<> check_picture_path(Arguments const& arguments);

/// Draws a picture into a file, whole or not at all.
///
/// Errors  file_unwritable
[[nodiscard]] Result<> write_picture(std::string const& path, Picture const& picture);

}  // namespace shardwise::cli
