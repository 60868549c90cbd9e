// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A process to start: its program and arguments as they are, without a shell.
struct ProcessCommand {
    /// The program first: a path, or a name that is looked for as PATH says.
    std::vector<std::string> arguments;
    /// Variables that it gets beside this process's own; the same name wins.
    std::vector<std::pair<std::string, std::string>> environment{};
    /// What it writes to its standard output goes nowhere.
    bool is_quiet = false;
};

/// How a process ended.
struct ProcessEnd {
    std::int32_t process = 0;
    int exit_code = 0;
    /// The signal that ended it; 0 where it exited.
    int signal = 0;

    [[nodiscard]] bool is_success() const { return signal == 0 && exit_code == 0; }
    /// "was ended by signal Killed", "ended with exit code 3".
    [[nodiscard]] std::string text() const {
        if (signal != 0) return std::string("was ended by signal ") + strsignal(signal);
        return "ended with exit code " + std::to_string(exit_code);
    }
};

/// Processes of this machine that live no longer than this object and this process (Linux: pidfd). Each leads a process
/// group of its own, which is ended with it, so that whatever it started goes too.
class LocalProcesses {
public:
    LocalProcesses() = default;
    LocalProcesses(LocalProcesses&& other) noexcept : processes_(std::move(other.processes_)) {
        other.processes_.clear();
    }
    LocalProcesses& operator=(LocalProcesses&& other) noexcept {
        processes_.swap(other.processes_);
        return *this;
    }
    ~LocalProcesses() { end_all(std::chrono::seconds(0)); }

    /// Starts all of them; where one cannot be started, none runs.
    ///
    /// Errors  file_not_found where there is no such program; backend_failure with the system call
    [[nodiscard]] static Result<LocalProcesses> start(std::vector<ProcessCommand> const& commands) {
        LocalProcesses out;
        for (auto const& command : commands) {
            if (auto const started = out.start_one(command); !started) return started.error();
        }
        return Result<LocalProcesses>(std::move(out));
    }

    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(processes_.size()); }
    [[nodiscard]] pid_t number(std::int32_t process) const { return processes_[index(process)].number; }
    /// How a process ended; nothing while it runs, as far as it was waited for.
    [[nodiscard]] std::optional<ProcessEnd> end_of(std::int32_t process) const {
        return processes_[index(process)].end;
    }

    /// The next process that has ended and was not told of yet; nothing where the deadline passes before, or none runs.
    [[nodiscard]] std::optional<ProcessEnd> wait(Deadline deadline) {
        while (true) {
            std::vector<pollfd> entries;
            std::vector<std::size_t> of;
            for (std::size_t i = 0; i < processes_.size(); ++i) {
                if (processes_[i].end) continue;
                entries.push_back({processes_[i].descriptor, POLLIN, 0});
                of.push_back(i);
            }
            if (entries.empty()) return std::nullopt;
            auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left()).count();
            auto const timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
            auto const ready = poll(entries.data(), entries.size(), timeout);
            for (std::size_t i = 0; ready > 0 && i < entries.size(); ++i) {
                if (entries[i].revents == 0) continue;
                if (auto const end = take_end(of[i])) return end;
            }
            if (deadline.has_passed()) return std::nullopt;
        }
    }

    /// Waits for all of them; the first that did not succeed ends all others, within `grace`.
    ///
    /// Errors  rank_lost with the number of the process and how it ended; deadline_exceeded with those that still ran
    [[nodiscard]] Result<> wait_for_all(Deadline deadline, std::chrono::nanoseconds grace = std::chrono::seconds(10)) {
        while (auto const end = wait(deadline)) {
            if (end->is_success()) continue;
            end_all(grace);
            return Error{ErrorCode::rank_lost}
                .in("rank " + std::to_string(end->process))
                .because(end->text())
                .fix("look at its output");
        }
        std::string running;
        for (std::int32_t i = 0; i < size(); ++i) {
            if (!end_of(i)) running += (running.empty() ? "" : ", ") + std::to_string(i);
        }
        if (running.empty()) return {};
        end_all(grace);
        return Error{ErrorCode::deadline_exceeded}
            .in("rank " + running)
            .because("did not end in time")
            .fix("look at what it does");
    }

    /// Ends all that run, with their process groups: asks them first, and kills them once `grace` is over.
    void end_all(std::chrono::nanoseconds grace) {
        if (grace.count() > 0) {
            for (auto const& process : processes_) {
                // A stopped process hears it only when it goes on.
                if (!process.end) signal_group(process, SIGTERM), signal_group(process, SIGCONT);
            }
            auto const deadline = Deadline::after(grace);
            while (wait(deadline)) {
            }
        }
        for (auto const& process : processes_) {
            if (!process.end) signal_group(process, SIGKILL);
        }
        auto const deadline = Deadline::after(std::chrono::seconds(10));
        while (wait(deadline)) {
        }
        for (auto const& process : processes_) close(process.descriptor);
        processes_.clear();
    }

private:
    struct Process {
        pid_t number = 0;
        int descriptor = -1;
        std::optional<ProcessEnd> end;
    };

    [[nodiscard]] static std::size_t index(std::int32_t process) { return static_cast<std::size_t>(process); }
    static void signal_group(Process const& process, int signal) { (void)kill(-process.number, signal); }

    [[nodiscard]] std::optional<ProcessEnd> take_end(std::size_t i) {
        auto& process = processes_[i];
        siginfo_t news{};
        if (waitid(P_PID, static_cast<id_t>(process.number), &news, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            news.si_pid != process.number)
            return std::nullopt;
        // What it left behind in its group goes too, while its number is still its own.
        signal_group(process, SIGKILL);
        int status = 0;
        (void)waitpid(process.number, &status, 0);
        process.end = ProcessEnd{static_cast<std::int32_t>(i), WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                                 WIFSIGNALED(status) ? WTERMSIG(status) : 0};
        return process.end;
    }

    /// "NAME=value" of this process's environment, with the command's own.
    [[nodiscard]] static std::vector<std::string> environment_of(ProcessCommand const& command) {
        std::vector<std::string> all;
        for (auto const& [name, value] : command.environment) all.push_back(name + "=" + value);
        for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
            std::string_view const text(*entry);
            auto const name = text.substr(0, text.find('='));
            bool const is_own = std::any_of(command.environment.begin(), command.environment.end(),
                                            [&](auto const& each) { return each.first == name; });
            if (!is_own) all.emplace_back(text);
        }
        return all;
    }
    [[nodiscard]] static std::vector<char*> pointers(std::vector<std::string>& words) {
        std::vector<char*> out;
        for (auto& word : words) out.push_back(word.data());
        out.push_back(nullptr);
        return out;
    }

    [[nodiscard]] Result<> start_one(ProcessCommand const& command) {
        Error error{ErrorCode::backend_failure};
        if (command.arguments.empty())
            return Error{ErrorCode::invalid_argument}.in("command").because("has no program");
        auto words = command.arguments;
        auto variables = environment_of(command);
        // All memory is taken before the fork: behind it only system calls are safe.
        auto arguments = pointers(words);
        auto environment = pointers(variables);
        int news[2] = {-1, -1};
        if (pipe2(news, O_CLOEXEC) != 0) return error.in("pipe2").because(std::strerror(errno));
        auto const parent = getpid();
        auto const number = fork();
        if (number == 0) run_child(command.is_quiet, parent, news[1], arguments.data(), environment.data());
        auto const problem = errno;
        close(news[1]);
        if (number < 0) {
            close(news[0]);
            return error.in("fork").because(std::strerror(problem));
        }
        // Both sides set it: whoever comes first.
        (void)setpgid(number, number);
        int reason = 0;
        ssize_t got = 0;
        do {
            got = read(news[0], &reason, sizeof reason);
        } while (got < 0 && errno == EINTR);
        close(news[0]);
        if (got == static_cast<ssize_t>(sizeof reason)) {
            (void)waitpid(number, nullptr, 0);
            return Error{reason == ENOENT ? ErrorCode::file_not_found : ErrorCode::backend_failure}
                .in(command.arguments.front())
                .because(reason == ENOENT ? "is no program" : std::strerror(reason))
                .fix("name a program that this user may execute");
        }
        auto const descriptor = static_cast<int>(syscall(SYS_pidfd_open, number, 0));
        if (descriptor < 0) {
            auto const why = errno;
            (void)kill(-number, SIGKILL);
            (void)waitpid(number, nullptr, 0);
            return error.in("pidfd_open").because(std::strerror(why));
        }
        processes_.push_back({number, descriptor, std::nullopt});
        return {};
    }

    [[noreturn]] static void run_child(bool is_quiet, pid_t parent, int news, char* const* arguments,
                                       char* const* environment) {
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        // The parent may have died before that.
        if (getppid() != parent) _exit(127);
        auto const null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null >= 0) {
            (void)dup2(null, STDIN_FILENO);
            if (is_quiet) (void)dup2(null, STDOUT_FILENO);
        }
        (void)execvpe(arguments[0], arguments, environment);
        auto const reason = errno;
        (void)!write(news, &reason, sizeof reason);
        _exit(127);
    }

    std::vector<Process> processes_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
