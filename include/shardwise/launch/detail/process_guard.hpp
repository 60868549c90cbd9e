// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a guard is told before it begins; everything was allocated before the fork, after which only system calls are safe.
struct GuardedCommand {
    char* const* arguments = nullptr;
    char* const* environment = nullptr;
    bool is_quiet = false;
    /// Where the process's number goes and, where it cannot be started, the system's error below zero.
    int news = -1;
    /// The end of a pipe; its other end closes when the launcher lets go or dies, however that happens.
    int life = -1;
    /// The signals that were blocked before the fork.
    sigset_t signals{};
};

/// Kills all children of this process, and once their parents are dead their children, until none is left. A child that
/// the system itself does not let go is waited for 10 seconds.
inline void kill_children() {
    char path[64];
    (void)std::snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(getpid()));
    for (int round = 0; round < 10000; ++round) {
        char text[4096];
        auto const file = open(path, O_RDONLY | O_CLOEXEC);
        auto const size = file < 0 ? ssize_t{0} : read(file, text, sizeof text);
        if (file >= 0) close(file);
        pid_t number = 0;
        // A number that the buffer cuts off has no blank after it: the next round sees it whole.
        for (ssize_t i = 0; i < size; ++i) {
            if (text[i] >= '0' && text[i] <= '9') {
                number = number * 10 + (text[i] - '0');
            } else {
                if (number > 1) (void)kill(number, SIGKILL);
                number = 0;
            }
        }
        pid_t ended = 0;
        do {
            ended = waitpid(-1, nullptr, WNOHANG);
        } while (ended > 0);
        if (ended < 0 && errno == ECHILD) return;
        timespec const pause{0, 1000000};
        (void)nanosleep(&pause, nullptr);
    }
}

[[noreturn]] inline void run_guarded(GuardedCommand const& command, pid_t guard) {
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The guard may have died before that.
    if (getppid() != guard) _exit(127);
    auto const null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        if (command.is_quiet) (void)dup2(null, STDOUT_FILENO);
    }
    (void)sigprocmask(SIG_SETMASK, &command.signals, nullptr);
    (void)execvpe(command.arguments[0], command.arguments, command.environment);
    // Below zero, so that it is told from a number of a process.
    auto const reason = -errno;
    (void)!write(command.news, &reason, sizeof reason);
    _exit(127);
}

/// Ends this process as another one ended, without a second core file.
[[noreturn]] inline void end_like(int status) {
    if (WIFSIGNALED(status)) {
        auto const number = WTERMSIG(status);
        rlimit const none{0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)signal(number, SIG_DFL);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, number);
        (void)kill(getpid(), number);
        (void)sigprocmask(SIG_UNBLOCK, &one, nullptr);
        _exit(128 + number);
    }
    _exit(WEXITSTATUS(status));
}

/// The life of a guard, which a launcher forked with all signals blocked: starts the command, takes in whatever it orphans,
/// also what called setsid, and ends all of it when the command ends or the launcher goes. It ends as the command ended.
[[noreturn]] inline void be_guard(GuardedCommand const& command) {
    // Interrupts of the terminal are the launcher's.
    (void)setsid();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    (void)signal(SIGCHLD, SIG_DFL);
    auto const events = signalfd(-1, &children, SFD_CLOEXEC);
    auto const guard = getpid();
    auto const number = fork();
    if (number == 0) run_guarded(command, guard);
    (void)!write(command.news, &number, sizeof number);
    // Whatever it inherited is not its own: the launcher's pipes to other guards, and output that others wait for.
    auto const null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int standard = 0; standard < 3 && null >= 0; ++standard) (void)dup2(null, standard);
    auto const lower = events < command.life ? events : command.life;
    auto const upper = events < command.life ? command.life : events;
    if (lower > 3) (void)syscall(SYS_close_range, 3U, static_cast<unsigned>(lower) - 1, 0U);
    if (upper > lower + 1) {
        (void)syscall(SYS_close_range, static_cast<unsigned>(lower) + 1, static_cast<unsigned>(upper) - 1, 0U);
    }
    (void)syscall(SYS_close_range, static_cast<unsigned>(upper) + 1, ~0U, 0U);
    int status = 0;
    bool has_ended = number < 0;
    while (!has_ended) {
        pollfd entries[2] = {{command.life, POLLIN, 0}, {events, POLLIN, 0}};
        if (poll(entries, 2, 1000) > 0 && entries[1].revents != 0) {
            signalfd_siginfo news;
            (void)!read(events, &news, sizeof news);
        }
        if (entries[0].revents != 0) {
            (void)kill(-number, SIGKILL);
            (void)kill(number, SIGKILL);
            (void)waitpid(number, &status, 0);
            break;
        }
        // What was orphaned and ended is taken at once, the command itself only looked at.
        while (!has_ended) {
            siginfo_t end{};
            if (waitid(P_ALL, 0, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid == 0) break;
            has_ended = end.si_pid == number;
            if (!has_ended) (void)waitpid(end.si_pid, nullptr, 0);
        }
    }
    if (has_ended && number > 0) {
        (void)kill(-number, SIGKILL);
        // Its peers read in /proc how it ended (comm/detail/process_watch.hpp), as long as nobody has taken the status.
        pollfd entry{command.life, POLLIN, 0};
        (void)poll(&entry, 1, 100);
        (void)waitpid(number, &status, 0);
    }
    kill_children();
    end_like(status);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
