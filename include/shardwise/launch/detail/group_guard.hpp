// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>
#include <shardwise/launch/detail/kill_children.hpp>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A process of a group; everything was allocated before the guard was forked.
struct GuardedMember {
    char* const* arguments = nullptr;
    char* const* environment = nullptr;
    /// Where its output goes; below zero: where the launcher's goes.
    int output = -1;
    int error = -1;
    /// The processors that it may run on; null: those of the launcher.
    cpu_set_t const* processors = nullptr;
    /// The guard's notes.
    pid_t process = 0;
    bool has_ended = false;
};

/// What a guard tells its launcher, one record for one thing.
struct GroupNews {
    enum Kind : std::int32_t { started = 1, not_started, ended, over };
    std::int32_t kind = 0;
    std::int32_t member = 0;
    std::int32_t process = 0;
    /// As wait() gives it; of what did not start the system's error; of what is over how many processes were left.
    std::int32_t status = 0;
    /// On the monotonic clock, in nanoseconds.
    std::int64_t moment = 0;
    /// Members whose ends have the same number had all ended before the guard looked.
    std::int32_t look = 0;
    /// The guard had sent signals before.
    std::int32_t is_after_signal = 0;
};

/// What a guard of a group is told before it begins.
struct GroupCommand {
    GuardedMember* members = nullptr;
    std::int32_t count = 0;
    /// The members share the launcher's session, process group and input, as a command on a terminal does.
    bool is_attached = false;
    /// The reading end of a socket of orders: each byte is a signal to send. When the other end closes, all are killed.
    int orders = -1;
    int news = -1;
    /// How long what the members leave behind has after SIGTERM.
    std::int64_t left_grace = 0;
    sigset_t signals{};
};

/// The life of a guard of a group; only system calls are made, since the launcher may have had threads.
class GroupGuard {
public:
    explicit GroupGuard(GroupCommand const& group) : group_(group) {}

    [[noreturn]] void run() {
        if (!group_.is_attached) (void)setsid();
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        struct sigaction usual {};
        usual.sa_handler = SIG_DFL;
        usual.sa_flags = SA_NOCLDSTOP;
        (void)sigaction(SIGCHLD, &usual, nullptr);
        sigset_t children;
        sigemptyset(&children);
        sigaddset(&children, SIGCHLD);
        events_ = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
        for (std::int32_t i = 0; i < group_.count; ++i) {
            if (!start(i)) end_all();
        }
        // Whoever kills the whole process group of the launcher leaves the guard to end the rest.
        if (group_.is_attached) (void)setsid();
        close_others();
        while (running_ > 0) {
            pollfd entries[2] = {{group_.orders, POLLIN, 0}, {events_, POLLIN, 0}};
            (void)poll(entries, 2, 1000);
            signalfd_siginfo ignored;
            (void)!read(events_, &ignored, sizeof ignored);
            take_ends();
            if (entries[0].revents != 0) obey();
        }
        end_what_is_left();
        tell(GroupNews::over, 0, 0, left_);
        _exit(0);
    }

private:
    [[nodiscard]] static std::int64_t now() {
        timespec time{};
        (void)clock_gettime(CLOCK_MONOTONIC, &time);
        return std::int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
    }
    void tell(GroupNews::Kind kind, std::int32_t member, pid_t process, int status) const {
        GroupNews const news{kind, member, process, status, now(), look_, has_signalled_ ? 1 : 0};
        // Shorter than PIPE_BUF: written whole or not at all.
        (void)!write(group_.news, &news, sizeof news);
    }
    [[noreturn]] void end_all() const {
        for (std::int32_t i = 0; i < group_.count && !group_.is_attached; ++i) {
            auto const process = group_.members[i].process;
            if (process > 0) (void)kill(-process, SIGKILL);
        }
        kill_children();
        tell(GroupNews::over, 0, 0, left_);
        _exit(0);
    }

    [[noreturn]] void become(GuardedMember const& member, int problem, pid_t guard) const {
        if (!group_.is_attached) (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        // The guard may have died before that.
        if (getppid() != guard) _exit(127);
        if (!group_.is_attached) {
            auto const null = open("/dev/null", O_RDWR | O_CLOEXEC);
            if (null >= 0) (void)dup2(null, STDIN_FILENO);
        }
        if (member.output >= 0) (void)dup2(member.output, STDOUT_FILENO);
        if (member.error >= 0) (void)dup2(member.error, STDERR_FILENO);
        if (member.processors != nullptr) (void)sched_setaffinity(0, sizeof(cpu_set_t), member.processors);
        (void)sigprocmask(SIG_SETMASK, &group_.signals, nullptr);
        (void)execvpe(member.arguments[0], member.arguments, member.environment);
        int const reason = errno;
        (void)!write(problem, &reason, sizeof reason);
        _exit(127);
    }

    /// Starts a member and waits until its program runs; false where it cannot, or the launcher has gone.
    [[nodiscard]] bool start(std::int32_t i) {
        auto& member = group_.members[i];
        int problem[2] = {-1, -1};
        if (pipe2(problem, O_CLOEXEC) != 0) {
            tell(GroupNews::not_started, i, 0, errno);
            return false;
        }
        auto const guard = getpid();
        auto const process = fork();
        if (process == 0) become(member, problem[1], guard);
        int reason = process < 0 ? errno : 0;
        (void)close(problem[1]);
        bool is_wanted = process > 0;
        while (is_wanted) {
            pollfd entries[2] = {{group_.orders, POLLIN, 0}, {problem[0], POLLIN, 0}};
            if (poll(entries, 2, 1000) <= 0) continue;
            if (entries[1].revents != 0) break;
            // An order before all run: the launcher has gone, or was told to end.
            is_wanted = false;
        }
        if (is_wanted && read(problem[0], &reason, sizeof reason) <= 0) reason = 0;
        (void)close(problem[0]);
        if (process > 0) {
            if (!group_.is_attached) (void)setpgid(process, process);
            member.process = process;
            ++running_;
        }
        if (process < 0 || reason != 0) {
            tell(GroupNews::not_started, i, process, reason);
            return false;
        }
        if (is_wanted) tell(GroupNews::started, i, process, 0);
        return is_wanted;
    }

    /// Whatever the guard inherited is not its own: the members' pipes, the launcher's to other guards, its output.
    void close_others() const {
        auto const null = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int standard = 0; standard < 3 && null >= 0; ++standard) (void)dup2(null, standard);
        int kept[3] = {group_.orders, group_.news, events_};
        for (int i = 0; i < 2; ++i) {
            for (int k = 0; k < 2; ++k) {
                if (kept[k] < kept[k + 1]) continue;
                auto const other = kept[k];
                kept[k] = kept[k + 1];
                kept[k + 1] = other;
            }
        }
        unsigned first = 3;
        for (int const one : kept) {
            if (one < 3) continue;
            auto const number = static_cast<unsigned>(one);
            if (number > first) (void)syscall(SYS_close_range, first, number - 1, 0U);
            first = number + 1;
        }
        (void)syscall(SYS_close_range, first, ~0U, 0U);
    }

    [[nodiscard]] static int wait_status(siginfo_t const& end) {
        if (end.si_code == CLD_EXITED) return (end.si_status & 0xFF) << 8;
        return end.si_status | (end.si_code == CLD_DUMPED ? 0x80 : 0);
    }
    /// Tells of all members that have ended. Their statuses stay where peers read them, until all is over
    /// (comm/detail/process_watch.hpp).
    void take_ends() {
        ++look_;
        bool is_new = true;
        // Once more where one was found: one that was looked at before it may have ended before it.
        while (is_new) {
            is_new = false;
            for (std::int32_t i = 0; i < group_.count; ++i) {
                auto& member = group_.members[i];
                if (member.has_ended) continue;
                siginfo_t end{};
                auto const id = static_cast<id_t>(member.process);
                if (waitid(P_PID, id, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid == 0) continue;
                member.has_ended = is_new = true;
                --running_;
                tell(GroupNews::ended, i, member.process, wait_status(end));
            }
        }
        // What was orphaned and has ended is taken at once.
        for_each_orphan([](pid_t process) { (void)waitpid(process, nullptr, WNOHANG); });
    }

    /// Sends what the launcher orders; kills all and ends where it has gone.
    void obey() {
        unsigned char orders[64];
        auto const count = read(group_.orders, orders, sizeof orders);
        if (count < 0 && errno == EINTR) return;
        if (count <= 0) end_all();
        for (ssize_t k = 0; k < count; ++k) {
            int const signal = orders[k];
            has_signalled_ = true;
            if (signal == SIGKILL) {
                kill_members();
                continue;
            }
            for (std::int32_t i = 0; i < group_.count; ++i) {
                auto const process = group_.is_attached ? group_.members[i].process : -group_.members[i].process;
                // Of one that has ended, its children hear it.
                if (group_.members[i].has_ended && group_.is_attached) continue;
                (void)kill(process, signal);
                // A stopped process hears it only when it goes on.
                (void)kill(process, SIGCONT);
            }
        }
    }
    /// Kills all at once; the statuses of the members are told before they are taken.
    void kill_members() {
        for (std::int32_t i = 0; i < group_.count; ++i) {
            auto const& member = group_.members[i];
            if (!group_.is_attached) (void)kill(-member.process, SIGKILL);
            if (!member.has_ended) (void)kill(member.process, SIGKILL);
        }
        auto const limit = now() + std::int64_t{10} * 1000000000;
        while (running_ > 0 && now() < limit) {
            take_ends();
            timespec const pause{0, 1000000};
            if (running_ > 0) (void)nanosleep(&pause, nullptr);
        }
        end_all();
    }

    /// Calls `visit(process)` for each child that is no member.
    template <class Visitor>
    void for_each_orphan(Visitor const& visit) const {
        char path[64];
        (void)std::snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(getpid()));
        auto const file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0) return;
        char text[4096];
        pid_t number = 0;
        for (ssize_t size = 0; (size = read(file, text, sizeof text)) > 0;) {
            for (ssize_t i = 0; i < size; ++i) {
                if (text[i] >= '0' && text[i] <= '9') {
                    number = number * 10 + (text[i] - '0');
                    continue;
                }
                if (number > 1 && !is_member(number)) visit(number);
                number = 0;
            }
        }
        (void)close(file);
    }
    [[nodiscard]] bool is_member(pid_t process) const {
        for (std::int32_t i = 0; i < group_.count; ++i) {
            if (group_.members[i].process == process) return true;
        }
        return false;
    }

    /// Asks what the members have left to end, and kills it once its time is over.
    void end_what_is_left() {
        auto const limit = now() + group_.left_grace;
        pid_t asked[256];
        int asked_count = 0;
        while (true) {
            int count = 0;
            for_each_orphan([&](pid_t process) {
                if (waitpid(process, nullptr, WNOHANG) != 0) return;
                ++count;
                for (int i = 0; i < asked_count; ++i) {
                    if (asked[i] == process) return;
                }
                if (asked_count < 256) {
                    asked[asked_count++] = process;
                    ++left_;
                }
                (void)kill(process, SIGTERM);
                (void)kill(process, SIGCONT);
            });
            if (count == 0 || now() >= limit) break;
            pollfd entries[2] = {{group_.orders, POLLIN, 0}, {events_, POLLIN, 0}};
            (void)poll(entries, 2, 5);
            signalfd_siginfo ignored;
            (void)!read(events_, &ignored, sizeof ignored);
            if (entries[0].revents == 0) continue;
            unsigned char order = SIGKILL;
            auto const got = read(group_.orders, &order, 1);
            if (got <= 0 || order == SIGKILL) break;
        }
        kill_children();
    }

    GroupCommand group_;
    int events_ = -1;
    std::int32_t running_ = 0;
    std::int32_t look_ = 0;
    std::int32_t left_ = 0;
    bool has_signalled_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
