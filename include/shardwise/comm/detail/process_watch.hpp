// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <string>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What the system says of a process: its state letter in /proc (R, S, T, Z, ...) and, once it has ended, how.
struct ProcessState {
    char letter = 0;
    int exit_status = 0;
};

/// Source  proc(5), /proc/[pid]/stat: field 3 is the state, field 52 the exit status in the form of waitpid
[[nodiscard]] inline ProcessState state_of_process(pid_t process) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%ld/stat", static_cast<long>(process));
    ProcessState state;
    auto* const file = std::fopen(path, "re");
    if (file == nullptr) return state;
    char text[1024];
    auto const size = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    text[size] = 0;
    // The name in parentheses may hold anything, also parentheses.
    auto const* field = std::strrchr(text, ')');
    if (field == nullptr || field[1] == 0) return state;
    state.letter = field[2];
    int number = 3;
    for (field += 2; *field != 0; ++field) {
        if (*field == ' ' && ++number == 52) {
            (void)std::sscanf(field + 1, "%d", &state.exit_status);
            break;
        }
    }
    return state;
}

/// Whether a process has ended, be it that its parent has taken the exit status or not.
[[nodiscard]] inline bool has_ended(pid_t process) {
    auto const descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    if (descriptor < 0) return errno == ESRCH;
    pollfd entry{descriptor, POLLIN, 0};
    bool const has = poll(&entry, 1, 0) == 1;
    close(descriptor);
    return has;
}

/// How a process that has ended did so.
[[nodiscard]] inline std::string end_of_process(pid_t process) {
    auto const state = state_of_process(process);
    // Once its parent has taken the exit status, only the end itself is known.
    if (state.letter != 'Z') return "has ended";
    auto const signal = state.exit_status & 0x7F;
    if (signal != 0) return std::string("was ended by signal ") + strsignal(signal);
    return "ended with exit code " + std::to_string((state.exit_status >> 8) & 0xFF);
}

/// Watches the processes of a group through file descriptors that stay theirs, whatever becomes of their numbers.
class ProcessWatch {
public:
    ProcessWatch() = default;
    explicit ProcessWatch(std::vector<pid_t> processes) : processes_(std::move(processes)) {
        for (auto const process : processes_) {
            descriptors_.push_back(process == getpid() ? -1 : static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
            is_gone_.push_back(process != getpid() && descriptors_.back() < 0 && errno == ESRCH);
        }
    }
    ProcessWatch(ProcessWatch&& other) noexcept { swap(other); }
    ProcessWatch& operator=(ProcessWatch&& other) noexcept {
        swap(other);
        return *this;
    }
    ~ProcessWatch() {
        for (auto const descriptor : descriptors_) {
            if (descriptor >= 0) close(descriptor);
        }
    }

    /// How the process of a rank ended, or nothing while it lives.
    [[nodiscard]] std::string operator()(std::int32_t rank) const {
        auto const i = static_cast<std::size_t>(rank);
        if (is_gone_[i]) return "is gone";
        if (descriptors_[i] < 0) return {};
        pollfd entry{descriptors_[i], POLLIN, 0};
        return poll(&entry, 1, 0) == 1 ? end_of_process(processes_[i]) : std::string();
    }

    /// True while the process of a rank is stopped, so that it cannot answer.
    [[nodiscard]] bool is_stopped(std::int32_t rank) const {
        auto const letter = state_of_process(processes_[static_cast<std::size_t>(rank)]).letter;
        return letter == 'T' || letter == 't';
    }

private:
    void swap(ProcessWatch& other) noexcept {
        processes_.swap(other.processes_);
        descriptors_.swap(other.descriptors_);
        is_gone_.swap(other.is_gone_);
    }

    std::vector<pid_t> processes_;
    std::vector<int> descriptors_;
    std::vector<char> is_gone_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
