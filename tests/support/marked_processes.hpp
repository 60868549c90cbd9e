// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace shardwise::testing {

/// Processes, those that have ended aside, whose environment has this variable.
inline int count_marked(std::string const& variable, std::string const& value) {
    auto const wanted = variable + "=" + value;
    int count = 0;
    std::error_code problem;
    for (auto const& entry : std::filesystem::directory_iterator("/proc", problem)) {
        std::ifstream file(entry.path() / "environ", std::ios::binary);
        for (std::string word; std::getline(file, word, '\0');) count += word == wanted ? 1 : 0;
    }
    return count;
}

}  // namespace shardwise::testing
