// SPDX-License-Identifier: Apache-2.0
#include "docker_facts.hpp"

#include "child_command.hpp"

#include <chrono>
#include <cstdlib>
#include <dirent.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace shardwise::cli {

namespace {

constexpr auto longest_answer = std::chrono::seconds(10);

/// A program of this name in PATH.
[[nodiscard]] bool is_installed(std::string_view name) {
    char const* const paths = std::getenv("PATH");
    std::string_view rest = paths == nullptr ? "" : paths;
    while (!rest.empty()) {
        auto const end = rest.find(':');
        auto const program = std::string(rest.substr(0, end)) + "/" + std::string(name);
        if (::access(program.c_str(), X_OK) == 0) return true;
        if (end == std::string_view::npos) return false;
        rest.remove_prefix(end + 1);
    }
    return false;
}

[[nodiscard]] bool has_description(char const* folder) {
    DIR* const opened = ::opendir(folder);
    if (opened == nullptr) return false;
    bool is_found = false;
    while (dirent const* const entry = ::readdir(opened)) {
        std::string_view const name = entry->d_name;
        for (std::string_view const suffix : {".yaml", ".json"})
            is_found = is_found || (name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix);
    }
    ::closedir(opened);
    return is_found;
}

/// The first line.
[[nodiscard]] std::string line_of(CommandAnswer const& answer) {
    return answer.status == 0 ? answer.out.substr(0, answer.out.find('\n')) : std::string{};
}

}  // namespace

CommandAnswer ask_command(std::vector<std::string> words) {
    auto answer = run_child(std::move(words), {.deadline = std::chrono::steady_clock::now() + longest_answer});
    return {answer.status, std::move(answer.out)};
}

DockerFacts find_docker() {
    DockerFacts facts;
    facts.client = line_of(ask_command({"docker", "version", "--format", "{{.Client.Version}}"}));
    // Without a daemon `docker version` fails, and has printed the client's version all the same.
    if (facts.client.empty()) {
        auto const text = ask_command({"docker", "--version"}).out;
        constexpr std::string_view start = "Docker version ";
        if (text.rfind(start, 0) == 0) facts.client = text.substr(start.size(), text.find_first_of(",\n") - start.size());
    }
    facts.daemon = line_of(ask_command({"docker", "version", "--format", "{{.Server.Version}}"}));
    facts.has_toolkit = is_installed("nvidia-container-runtime") || is_installed("nvidia-container-toolkit");
    facts.has_cdi = has_description("/etc/cdi") || has_description("/var/run/cdi");
    return facts;
}

}  // namespace shardwise::cli
