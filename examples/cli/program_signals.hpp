// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <initializer_list>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::cli {

/// Whether the end of the terminal is to leave the program alone: nohup.
[[nodiscard]] inline bool ignores_hangup() {
    struct sigaction now {};
    return ::sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

/// Signals by which a program is asked to end work that has a good place to end, as long as this lives: the first one is kept for
/// whoever looks, the second one ends the program at once, with 128 and its number. A hangup that is ignored stays so.
class StopRequest {
public:
    explicit StopRequest(std::initializer_list<int> signals) {
        taken_ = 0;
        struct sigaction action {};
        action.sa_handler = [](int signal) {
            if (taken_.exchange(signal) != 0) ::_exit(128 + signal);
        };
        action.sa_flags = SA_RESTART;
        ::sigemptyset(&action.sa_mask);
        // One after another: of two that come at once each has its turn.
        for (auto const signal : signals) ::sigaddset(&action.sa_mask, signal);
        for (auto const signal : signals) {
            struct sigaction before {};
            bool const is_left = signal == SIGHUP && ignores_hangup();
            if (is_left || ::sigaction(signal, &action, &before) != 0) continue;
            before_.emplace_back(signal, before);
        }
    }
    StopRequest(StopRequest const&) = delete;
    StopRequest& operator=(StopRequest const&) = delete;
    ~StopRequest() {
        for (auto const& [signal, action] : before_) ::sigaction(signal, &action, nullptr);
    }

    /// The signal that came; 0: none. It stays when this is gone.
    [[nodiscard]] static int signal() { return taken_; }

private:
    /// Handlers may run on two threads at once.
    inline static std::atomic<int> taken_{0};
    static_assert(std::atomic<int>::is_always_lock_free);

    std::vector<std::pair<int, struct sigaction>> before_;
};

/// Signals that end the program, and those of children and of the terminal's size, come as data as long as this lives. To be
/// made before any thread is, so that all threads leave them alone.
class ProgramSignals {
public:
    /// `has_view`: what stops the program (Ctrl-Z) comes as data too, so that it can leave the terminal in order.
    explicit ProgramSignals(bool has_view) {
        ::sigemptyset(&taken_);
        if (has_view) ::sigaddset(&taken_, SIGTSTP);
        for (int const signal : {SIGINT, SIGTERM, SIGQUIT, SIGCHLD, SIGWINCH}) ::sigaddset(&taken_, signal);
        // Blocked, one that is ignored would come as data.
        if (!ignores_hangup()) ::sigaddset(&taken_, SIGHUP);
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
