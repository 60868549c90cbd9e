// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/launch/process_group.hpp>

#include "program_signals.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::cli {

/// A command that is watched. It shares this program's terminal, input and outputs; a guard is its parent, which ends what it
/// leaves behind, also where this program is killed.
class MonitorChild {
public:
    /// Starts a program and its arguments, without a shell.
    ///
    /// Errors  file_not_found, backend_failure: it cannot be started
    [[nodiscard]] static Result<MonitorChild> start(std::vector<std::string> const& words, ProgramSignals const& signals);

    /// Takes a signal that this program got: ends are passed on, unless the terminal has sent them to both. What does not
    /// end within ten seconds of SIGTERM or SIGHUP is killed, and at once by a second SIGINT of a program.
    void take(signalfd_siginfo const& signal);
    /// Takes the news of its end, and kills it where its time is over.
    void look();
    /// Becomes readable when there are news.
    [[nodiscard]] int descriptor() const { return group_.descriptor(); }
    [[nodiscard]] bool has_ended() const { return has_ended_; }
    /// Its exit code, 128 + the signal that ended it.
    [[nodiscard]] int exit_code() const { return exit_code_; }
    /// "ended with exit code 3", "was ended by signal 9 (Killed)".
    [[nodiscard]] std::string end_text() const;
    /// Ends whatever it has left running: SIGTERM, and after two seconds SIGKILL. Gives how many there were.
    int sweep();

private:
    explicit MonitorChild(ProcessGroup group) : group_(std::move(group)) {}

    ProcessGroup group_;
    bool has_ended_ = false;
    int exit_code_ = 0;
    int signal_ = 0;
    int interrupts_ = 0;
    bool has_limit_ = false;
    std::chrono::steady_clock::time_point limit_{};
};

}  // namespace shardwise::cli
