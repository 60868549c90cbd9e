// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shardwise::cli {

/// What a command answered on stdout.
struct CommandAnswer {
    /// Its exit status; 127 where it is not installed, -1 where it did not answer in time or was ended by a signal.
    int status = -1;
    std::string out;
};

/// Runs a command without a shell, its stderr left out, for at most ten seconds.
[[nodiscard]] CommandAnswer ask_command(std::vector<std::string> words);

/// What this machine's docker says of itself.
struct DockerFacts {
    /// "28.2.2"; "" where there is no docker.
    std::string client;
    /// "" where no daemon answers.
    std::string daemon;
    /// NVIDIA's container toolkit is installed.
    bool has_toolkit = false;
    /// Some CDI description is there.
    bool has_cdi = false;
};
[[nodiscard]] DockerFacts find_docker();

}  // namespace shardwise::cli
