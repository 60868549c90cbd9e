// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/types.h>
#include <system_error>
#include <thread>
#include <vector>

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

/// The processes whose parent is this one's main thread.
inline std::vector<pid_t> children_of(pid_t process) {
    auto const number = std::to_string(process);
    std::ifstream file("/proc/" + number + "/task/" + number + "/children");
    std::vector<pid_t> out;
    for (pid_t child = 0; file >> child;) out.push_back(child);
    return out;
}

/// Whether a condition comes true in time.
template <class Condition>
bool comes_true(std::chrono::milliseconds limit, Condition const& condition) {
    auto const end = std::chrono::steady_clock::now() + limit;
    do {
        if (condition()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    } while (std::chrono::steady_clock::now() < end);
    return condition();
}

}  // namespace shardwise::testing
