// SPDX-License-Identifier: Apache-2.0
#include "docker_facts.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace shardwise::cli {

namespace {

constexpr auto longest_answer = std::chrono::seconds(10);
constexpr std::size_t most_answered = std::size_t{1} << 16U;

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
    CommandAnswer answer;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return answer;
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    auto const child = ::fork();
    if (child == 0) {
        int const nothing = ::open("/dev/null", O_RDWR);
        if (nothing < 0 || ::dup2(nothing, 0) < 0 || ::dup2(ends[1], 1) < 0 || ::dup2(nothing, 2) < 0) ::_exit(126);
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }
    ::close(ends[1]);
    auto const deadline = std::chrono::steady_clock::now() + longest_answer;
    bool is_late = child < 0;
    while (!is_late && answer.out.size() < most_answered) {
        auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd waited{ends[0], POLLIN, 0};
        is_late = left.count() <= 0 || ::poll(&waited, 1, static_cast<int>(left.count())) <= 0;
        if (is_late) break;
        std::array<char, 4096> buffer{};
        auto const count = ::read(ends[0], buffer.data(), buffer.size());
        if (count <= 0) break;
        answer.out.append(buffer.data(), static_cast<std::size_t>(count));
    }
    ::close(ends[0]);
    if (child < 0) return answer;
    if (is_late) (void)::kill(child, SIGKILL);
    int status = 0;
    if (::waitpid(child, &status, 0) == child && WIFEXITED(status) && !is_late) answer.status = WEXITSTATUS(status);
    return answer;
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
