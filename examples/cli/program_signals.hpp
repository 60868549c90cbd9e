// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace shardwise::cli {

/// Signals that end the program, and those of children and of the terminal's size, come as data as long as this lives. To be
/// made before any thread is, so that all threads leave them alone.
class ProgramSignals {
public:
    /// `has_view`: what stops the program (Ctrl-Z) comes as data too, so that it can leave the terminal in order.
    explicit ProgramSignals(bool has_view) {
        ::sigemptyset(&taken_);
        if (has_view) ::sigaddset(&taken_, SIGTSTP);
        for (int const signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGWINCH}) ::sigaddset(&taken_, signal);
        ::sigprocmask(SIG_BLOCK, &taken_, &before_);
        descriptor_ = ::signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK);
    }
    ProgramSignals(ProgramSignals const&) = delete;
    ProgramSignals& operator=(ProgramSignals const&) = delete;
    ~ProgramSignals() {
        if (descriptor_ >= 0) ::close(descriptor_);
        ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    }

    /// What a program that is started gets back.
    [[nodiscard]] sigset_t const& before() const { return before_; }
    [[nodiscard]] int descriptor() const { return descriptor_; }

    /// The next signal that has come; nothing where none has.
    [[nodiscard]] std::optional<signalfd_siginfo> next() const {
        signalfd_siginfo info{};
        if (::read(descriptor_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
        return info;
    }
    /// The same, waiting so long for one, or until another descriptor is readable.
    [[nodiscard]] std::optional<signalfd_siginfo> wait(std::chrono::milliseconds limit, int other = -1) const {
        pollfd ready[2]{{descriptor_, POLLIN, 0}, {other, POLLIN, 0}};
        (void)::poll(ready, 2, static_cast<int>(limit.count()));
        return next();
    }
    /// Whether a signal asks the program to end.
    [[nodiscard]] static bool is_end(signalfd_siginfo const& info) {
        auto const signal = static_cast<int>(info.ssi_signo);
        return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    }

private:
    sigset_t taken_{};
    sigset_t before_{};
    int descriptor_ = -1;
};

}  // namespace shardwise::cli
