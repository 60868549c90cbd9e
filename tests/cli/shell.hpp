// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program.hpp"

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::tests {

/// What a command of /bin/sh did; its output is that of both streams.
[[nodiscard]] inline Ran run_in_shell(std::string const& command) {
    Ran ran;
    auto* const pipe = ::popen((command + " 2>&1 < /dev/null").c_str(), "r");
    if (pipe == nullptr) return ran;
    char buffer[4096];
    for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
        ran.out.append(buffer, count);
    auto const status = ::pclose(pipe);
    if (WIFEXITED(status)) ran.status = WEXITSTATUS(status);
    return ran;
}

[[nodiscard]] inline bool is_installed(std::string const& program) {
    return run_in_shell("command -v " + program).status == 0;
}

[[nodiscard]] inline std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        auto const end = std::min(text.find('\n'), text.size());
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

}  // namespace shardwise::tests
