// SPDX-License-Identifier: Apache-2.0
#include "monitor_child.hpp"

#include <shardwise/hardware/system/system_files.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace shardwise::cli {

namespace {

/// The processes that this one is the parent of.
[[nodiscard]] std::vector<pid_t> children() {
    std::vector<pid_t> found;
    SystemFiles const files;
    for (auto const task : files.numbered("/proc/self/task", "")) {
        auto const text = files.text("/proc/self/task/" + std::to_string(task) + "/children").value_or("");
        for (auto const word : detail::split_text(text, ' ')) {
            auto const number = detail::to_integer(word);
            if (number && *number > 1) found.push_back(static_cast<pid_t>(*number));
        }
    }
    return found;
}

}  // namespace

Result<MonitorChild> MonitorChild::start(std::vector<std::string> const& words, MonitorSignals const& signals) {
    // What the command's processes leave behind becomes ours instead of init's.
    (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::vector<std::string> copies = words;
    std::vector<char*> arguments;
    for (auto& word : copies) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int problem[2]{-1, -1};
    auto const failure = [&words](char const* call, int code) {
        return Error{ErrorCode::backend_failure}.in(call).at(words.front()).because(std::strerror(code));
    };
    if (::pipe2(problem, O_CLOEXEC) != 0) return failure("pipe2", errno);
    auto const parent = ::getpid();
    auto const process = ::fork();
    if (process < 0) {
        int const code = errno;
        ::close(problem[0]);
        ::close(problem[1]);
        return failure("fork", code);
    }
    if (process == 0) {
        // Whoever kills this program kills the command.
        (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(127);
        ::sigprocmask(SIG_SETMASK, &signals.before(), nullptr);
        ::execvp(arguments[0], arguments.data());
        int const code = errno;
        (void)!::write(problem[1], &code, sizeof code);
        ::_exit(127);
    }
    ::close(problem[1]);
    int code = 0;
    ssize_t got = 0;
    do {
        got = ::read(problem[0], &code, sizeof code);
    } while (got < 0 && errno == EINTR);
    ::close(problem[0]);
    if (got != static_cast<ssize_t>(sizeof code)) return Result<MonitorChild>(MonitorChild(process));
    (void)::waitpid(process, nullptr, 0);
    if (code == ENOENT)
        return Error{ErrorCode::file_not_found}.in(words.front()).because("cannot be started: there is no such program");
    if (code == EACCES) {
        return Error{ErrorCode::file_unreadable}
            .in(words.front())
            .because("cannot be started: it may not be executed")
            .fix("name a program, or check its permissions");
    }
    return failure("execvp", code);
}

MonitorChild::MonitorChild(MonitorChild&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      has_ended_(other.has_ended_),
      exit_code_(other.exit_code_),
      signal_(other.signal_) {}

MonitorChild::~MonitorChild() {
    if (process_ > 0) (void)sweep();
}

void MonitorChild::reap() {
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        if (ended != process_) continue;
        has_ended_ = true;
        signal_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        exit_code_ = signal_ != 0 ? 128 + signal_ : WEXITSTATUS(status);
    }
}

void MonitorChild::take(signalfd_siginfo const& signal) {
    auto const number = static_cast<int>(signal.ssi_signo);
    if (number == SIGCHLD) reap();
    if (has_ended_ || !MonitorSignals::is_end(signal)) return;
    // Ctrl-C and its like reach the command from the terminal itself.
    if (signal.ssi_code == SI_KERNEL) return;
    if (number == SIGINT && ++interrupts_ > 1) {
        (void)::kill(process_, SIGKILL);
        return;
    }
    (void)::kill(process_, number);
    if (number != SIGINT && !std::exchange(has_limit_, true))
        limit_ = std::chrono::steady_clock::now() + std::chrono::seconds(10);
}

void MonitorChild::look_at_clock() {
    if (has_limit_ && !has_ended_ && std::chrono::steady_clock::now() > limit_) (void)::kill(process_, SIGKILL);
}

std::string MonitorChild::end_text() const {
    if (signal_ != 0) return "was ended by signal " + std::to_string(signal_) + " (" + ::strsignal(signal_) + ")";
    return "ended with exit code " + std::to_string(exit_code_);
}

int MonitorChild::sweep() {
    std::vector<pid_t> seen;
    auto const kill_after = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (true) {
        reap();
        auto const left = children();
        if (left.empty()) break;
        bool const is_late = std::chrono::steady_clock::now() > kill_after;
        for (auto const process : left) {
            bool const is_new = std::find(seen.begin(), seen.end(), process) == seen.end();
            if (is_new) seen.push_back(process);
            if (is_late || is_new) (void)::kill(process, is_late ? SIGKILL : SIGTERM);
            // One that is stopped takes no SIGTERM.
            if (is_new) (void)::kill(process, SIGCONT);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    process_ = -1;
    return static_cast<int>(seen.size());
}

}  // namespace shardwise::cli
