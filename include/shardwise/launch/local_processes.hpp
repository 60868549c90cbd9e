// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/launch/detail/process_guard.hpp>

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

/// Processes of this machine that live no longer than this object and this process (Linux: pidfd). Each has a guard as its
/// parent, which takes in what it orphans and ends all of it, also what called setsid or was stopped: when the process
/// ends, when this object goes, and when this process dies, however that happens.
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
        // Their guards kill all that is left.
        for (auto& process : processes_) let_go(process);
        auto const deadline = Deadline::after(std::chrono::seconds(12));
        while (wait(deadline)) {
        }
        for (auto const& process : processes_) {
            // A guard that was stopped itself.
            if (!process.end && kill(process.guard, SIGKILL) == 0) (void)waitpid(process.guard, nullptr, 0);
            close(process.descriptor);
        }
        processes_.clear();
    }

private:
    struct Process {
        pid_t number = 0;
        pid_t guard = 0;
        /// The guard's.
        int descriptor = -1;
        /// The guard ends everything when this closes.
        int life = -1;
        std::optional<ProcessEnd> end;
    };

    [[nodiscard]] static std::size_t index(std::int32_t process) { return static_cast<std::size_t>(process); }
    static void signal_group(Process const& process, int signal) { (void)kill(-process.number, signal); }
    static void let_go(Process& process) {
        if (process.life >= 0) close(std::exchange(process.life, -1));
    }

    [[nodiscard]] std::optional<ProcessEnd> take_end(std::size_t i) {
        auto& process = processes_[i];
        int status = 0;
        if (waitpid(process.guard, &status, WNOHANG) != process.guard) return std::nullopt;
        let_go(process);
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
        int life[2] = {-1, -1};
        if (pipe2(news, O_CLOEXEC) != 0) return error.in("pipe2").because(std::strerror(errno));
        if (pipe2(life, O_CLOEXEC) != 0) {
            error.in("pipe2").because(std::strerror(errno));
            close(news[0]);
            close(news[1]);
            return error;
        }
        detail::GuardedCommand guarded{arguments.data(), environment.data(), command.is_quiet, news[1], life[0], {}};
        // No handler of this program runs in the guard.
        sigset_t all;
        sigfillset(&all);
        (void)pthread_sigmask(SIG_BLOCK, &all, &guarded.signals);
        auto const guard = fork();
        if (guard == 0) {
            close(life[1]);
            detail::be_guard(guarded);
        }
        auto const problem = errno;
        (void)pthread_sigmask(SIG_SETMASK, &guarded.signals, nullptr);
        close(news[1]);
        close(life[0]);
        // Two numbers, in either order of writing: the guard's child may fail before the guard says its number.
        int words_read[2] = {0, 0};
        auto const got = guard < 0 ? std::size_t{0} : read_words(news[0], words_read);
        close(news[0]);
        auto const abandon = [&] {
            close(life[1]);
            if (guard > 0) (void)waitpid(guard, nullptr, 0);
        };
        if (guard < 0) {
            abandon();
            return error.in("fork").because(std::strerror(problem));
        }
        if (got != 1 || words_read[0] < 1) {
            abandon();
            if (got != 2) return error.in("fork").because("no process could be made");
            auto const reason = -std::min(words_read[0], words_read[1]);
            return Error{reason == ENOENT ? ErrorCode::file_not_found : ErrorCode::backend_failure}
                .in(command.arguments.front())
                .because(reason == ENOENT ? "is no program" : std::strerror(reason))
                .fix("name a program that this user may execute");
        }
        auto const descriptor = static_cast<int>(syscall(SYS_pidfd_open, guard, 0));
        if (descriptor < 0) {
            auto const why = errno;
            abandon();
            return error.in("pidfd_open").because(std::strerror(why));
        }
        processes_.push_back({static_cast<pid_t>(words_read[0]), guard, descriptor, life[1], std::nullopt});
        return {};
    }

    /// How many whole numbers came before the end of the pipe.
    [[nodiscard]] static std::size_t read_words(int pipe, int (&words)[2]) {
        std::size_t bytes = 0;
        while (bytes < sizeof words) {
            auto const count = read(pipe, reinterpret_cast<char*>(words) + bytes, sizeof words - bytes);
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) break;
            bytes += static_cast<std::size_t>(count);
        }
        return bytes / sizeof(int);
    }

    std::vector<Process> processes_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
