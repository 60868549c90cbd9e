// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shardwise::cli {

/// What the ranks of `run` are.
enum class RankKind : std::uint8_t { threads, processes, mpi };

}  // namespace shardwise::cli
