// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include "monitor_signals.hpp"

#include <chrono>
#include <string>
#include <sys/types.h>
#include <vector>

namespace shardwise::cli {

/// A command that is watched. It shares this program's terminal, input and outputs; what it leaves behind comes to this
/// process, which ends it.
class MonitorChild {
public:
    /// Starts a program and its arguments, without a shell.
    ///
    /// Errors  file_not_found, backend_failure: it cannot be started
    [[nodiscard]] static Result<MonitorChild> start(std::vector<std::string> const& words, MonitorSignals const& signals);
    MonitorChild(MonitorChild&& other) noexcept;
    MonitorChild& operator=(MonitorChild&&) = delete;
    /// Ends all that is left.
    ~MonitorChild();

    /// Takes a signal that this program got: ends are passed on, unless the terminal has sent them to both. What does not
    /// end within ten seconds of SIGTERM or SIGHUP is killed, and at once by a second SIGINT of a program.
    void take(signalfd_siginfo const& signal);
    /// Kills it where its time is over.
    void look_at_clock();
    [[nodiscard]] bool has_ended() const { return has_ended_; }
    /// Its exit code, 128 + the signal that ended it.
    [[nodiscard]] int exit_code() const { return exit_code_; }
    /// "ended with exit code 3", "was ended by signal 9 (Killed)".
    [[nodiscard]] std::string end_text() const;
    /// Ends whatever it has left running: SIGTERM, and after two seconds SIGKILL. Gives how many there were.
    int sweep();

private:
    explicit MonitorChild(pid_t process) : process_(process) {}
    void reap();

    pid_t process_ = -1;
    bool has_ended_ = false;
    int exit_code_ = 0;
    int signal_ = 0;
    int interrupts_ = 0;
    bool has_limit_ = false;
    std::chrono::steady_clock::time_point limit_{};
};

}  // namespace shardwise::cli
