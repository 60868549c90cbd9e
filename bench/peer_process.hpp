// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/value.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace bench {

/// A peer that waits for its turns: a Python program that prints {"version"} first, and then a JSON object for each line that it is given.
class PeerProcess {
public:
    /// `script`: a file beside the benchmark `source` (its __FILE__); `job`: the program's only argument. There is no peer where
    /// SHARDWISE_PYTHON names no Python that can run it.
    PeerProcess(std::string_view source, std::string_view script, std::string const& job)
        : PeerProcess(command_of(source, script, job)) {}
    /// `command` is a line for the shell; empty: there is no peer.
    explicit PeerProcess(std::string const& command) {
        std::array<int, 2> to{};
        std::array<int, 2> from{};
        // A second peer that had the first one's ends would keep it from ending.
        if (command.empty() || ::pipe2(to.data(), O_CLOEXEC) != 0 || ::pipe2(from.data(), O_CLOEXEC) != 0) return;
        child_ = ::fork();
        if (child_ == 0) {
            ::dup2(to[0], 0);
            ::dup2(from[1], 1);
            ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
            ::_exit(127);
        }
        ::close(to[0]);
        ::close(from[1]);
        to_ = ::fdopen(to[1], "w");
        from_ = ::fdopen(from[0], "r");
        auto const first = shardwise::parse_json(answer());
        if (!first) return;
        if (auto const version = first->root().find("version")) version_ = std::string(version->string().value_or(""));
    }
    PeerProcess(PeerProcess const&) = delete;
    PeerProcess& operator=(PeerProcess const&) = delete;
    ~PeerProcess() {
        if (to_ != nullptr) std::fclose(to_);
        if (from_ != nullptr) std::fclose(from_);
        if (child_ > 0) (void)::waitpid(child_, nullptr, 0);
    }

    /// Empty where there is no such peer.
    [[nodiscard]] std::string const& version() const { return version_; }

    /// The number `name` of its answer to a line; nothing where there is no such peer or it has no such number.
    [[nodiscard]] std::optional<double> ask(std::string_view line, std::string_view name) {
        return ask(line, std::array<std::string_view, 1>{name})[0];
    }
    /// Several numbers of one answer.
    template <std::size_t N>
    [[nodiscard]] std::array<std::optional<double>, N> ask(std::string_view line,
                                                           std::array<std::string_view, N> const& names) {
        std::array<std::optional<double>, N> out{};
        if (version_.empty()) return out;
        std::fprintf(to_, "%.*s\n", static_cast<int>(line.size()), line.data());
        std::fflush(to_);
        auto const text = answer();
        // Its threads spin for a tenth of a second before they sleep.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        auto const document = shardwise::parse_json(text);
        if (!document) return out;
        for (std::size_t i = 0; i < N; ++i) {
            if (auto const number = document->root().find(names[i])) out[i] = number->real().value_or(0.0);
        }
        return out;
    }

private:
    [[nodiscard]] static std::string command_of(std::string_view source, std::string_view script,
                                                std::string const& job) {
        char const* const python = std::getenv("SHARDWISE_PYTHON");
        if (python == nullptr || *python == '\0') return {};
        auto const path = std::filesystem::path(source).parent_path() / script;
        return "exec '" + std::string(python) + "' '" + path.string() + "' '" + job + "' 2>/dev/null";
    }
    [[nodiscard]] std::string answer() const {
        std::array<char, 512> line{};
        if (from_ == nullptr || std::fgets(line.data(), line.size(), from_) == nullptr) return {};
        return line.data();
    }

    pid_t child_ = -1;
    std::FILE* to_ = nullptr;
    std::FILE* from_ = nullptr;
    std::string version_;
};

}  // namespace bench
