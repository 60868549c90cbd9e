#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/plan/picture.hpp>

#include "map_answer.hpp"

#include <string>

namespace shardwise::cli {

/// The picture of what `map` found.
[[nodiscard]] Picture map_picture(MapRequest const& request, MapAnswer const& answer);

/// Draws a picture into a file, whole or not at all.
///
/// Errors  file_unwritable; invalid_argument for an empty path and for "-"
[[nodiscard]] Result<> write_picture(std::string const& path, Picture const& picture);

}  // namespace shardwise::cli
