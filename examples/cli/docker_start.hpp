// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/deploy/container.hpp>

#include "exit_code.hpp"

#include <chrono>

namespace shardwise::cli {

/// Starts a container by docker, waits until its server is healthy and prints its address; it is left running. What fails, or
/// is stopped by a signal, is removed, after its last lines were shown.
[[nodiscard]] ExitCode start_container(Container const& container, std::chrono::seconds limit);

}  // namespace shardwise::cli
