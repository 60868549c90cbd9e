// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program.hpp"

#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::tests {

/// A script in the place of docker: it notes what it is asked in a folder, and answers by what lies there.
class FakeDocker {
public:
    FakeDocker() {
        auto const script = folder_.write("docker", R"(#!/bin/sh
cd "$FAKE_DOCKER" || exit 99
echo "$*" >> calls
case "$1" in
    version) [ -e no_daemon ] && { cat no_daemon >&2; exit 1; }
             [ -e hang ] && { trap '' TERM; echo hangs > hanging; while :; do sleep 0.1; done; }
             echo 99.1 ;;
    context) cat context 2>/dev/null || echo unix:///var/run/docker.sock ;;
    image) [ -e image ] ;;
    pull) [ -e pull_fails ] && { cat pull_fails >&2; exit 1; }
          echo > pulling; [ -e pull_hangs ] && exec sleep 100; echo > image ;;
    run) printf '%s\0' "$@" > words; [ -e refusal ] && { cat refusal >&2; exit 125; }
         echo 0123abcd; echo > started ;;
    inspect) cat state 2>/dev/null || { echo "Error: No such object: 0123abcd" >&2; exit 1; } ;;
    logs) cat logs; cat logs2 >&2 ;;
    ps) echo 0123abcd ;;
    rm) echo "$*" > removed ;;
esac
)");
        (void)::chmod(script.c_str(), 0700);
        write("state", "true 0 false\n");
        write("logs", "");
        write("logs2", "");
        write("image", "");
    }

    void write(std::string_view name, std::string_view text) const { folder_.write(name, text); }
    void erase(std::string_view name) const { std::filesystem::remove(folder_.path(name)); }
    [[nodiscard]] std::string text(std::string_view name) const { return read_text(folder_.path(name)); }
    [[nodiscard]] bool has(std::string_view name) const { return std::filesystem::exists(folder_.path(name)); }
    [[nodiscard]] std::string const& folder() const { return folder_.path(); }

    /// Waits for a file that the script makes.
    bool wait_for(std::string_view name) const {
        for (int i = 0; i < 1000 && !has(name); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return has(name);
    }
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> environment() const {
        return {{"PATH", folder_.path() + ":/usr/bin:/bin"},
                {"FAKE_DOCKER", folder_.path()},
                {"HF_HUB_CACHE", folder_.path("hub")}};
    }
    /// `deploy` for a processor, started.
    [[nodiscard]] Ran deploy(std::vector<std::string> const& words, std::function<void(pid_t)> const& meanwhile = {},
                             std::vector<std::pair<std::string, std::string>> more = {}) const {
        std::vector<std::string> all{SHARDWISE_PROGRAM, "deploy", "tei", "bert-base-uncased", "--devices", "cpu"};
        all.insert(all.end(), words.begin(), words.end());
        auto const own = environment();
        more.insert(more.end(), own.begin(), own.end());
        return run_command_line(std::move(all), more, meanwhile);
    }

private:
    TemporaryFolder folder_;
};

/// A port of 127.0.0.1 that is free now.
[[nodiscard]] inline std::string free_port() {
    int const opened = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    (void)::bind(opened, reinterpret_cast<sockaddr*>(&address), size);
    (void)::getsockname(opened, reinterpret_cast<sockaddr*>(&address), &size);
    ::close(opened);
    return std::to_string(ntohs(address.sin_port));
}

/// Answers one request with each of these first lines in turn ("" closes without an answer), and returns what was asked.
inline std::vector<std::string> answer_requests(std::string const& port, std::vector<std::string> const& answers) {
    std::vector<std::string> requests;
    int const listener = ::socket(AF_INET, SOCK_STREAM, 0);
    int const yes = 1;
    (void)::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && ::listen(listener, 8) == 0) {
        for (auto const& answer : answers) {
            pollfd waited{listener, POLLIN, 0};
            if (::poll(&waited, 1, 20000) != 1) break;
            int const client = ::accept(listener, nullptr, nullptr);
            char buffer[1024];
            auto const count = answer.empty() ? 0 : ::recv(client, buffer, sizeof buffer, 0);
            requests.emplace_back(buffer, static_cast<std::size_t>(count > 0 ? count : 0));
            if (!answer.empty()) (void)::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
            ::close(client);
        }
    }
    ::close(listener);
    return requests;
}

}  // namespace shardwise::tests
