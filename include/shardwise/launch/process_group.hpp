// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/launch/detail/group_guard.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <optional>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A process of a group: its program and arguments as they are, without a shell.
struct GroupMember {
    /// The program first: a path, or a name that is looked for as PATH says.
    std::vector<std::string> arguments;
    /// Its whole environment: "NAME=value".
    std::vector<std::string> environment;
    /// Descriptors of this process that its standard output and error go to; below zero: where this process's go.
    int output = -1;
    int error = -1;
    /// The processors that it may run on, by their numbers; empty: those of this process.
    std::vector<std::int64_t> processors{};
};

/// How a member of a group ended, as its guard saw it.
struct MemberEnd {
    std::int32_t member = 0;
    pid_t process = 0;
    /// The exit code; 0 where a signal ended it.
    int exit_code = 0;
    /// The signal that ended it; 0 where it exited.
    int signal = 0;
    bool has_dumped_core = false;
    /// Members of the same look had all ended before the guard looked: which was the first is unknown.
    std::int32_t look = 0;
    /// After the guard had begun to end the group.
    bool is_after_signal = false;
    /// From its start until the guard saw its end.
    std::chrono::nanoseconds time{};

    [[nodiscard]] bool is_success() const { return exit_code == 0 && signal == 0; }
    /// "was ended by signal Killed", "ended with exit code 3".
    [[nodiscard]] std::string text() const {
        if (signal != 0) return std::string("was ended by signal ") + strsignal(signal);
        return "ended with exit code " + std::to_string(exit_code);
    }
};

/// How groups are guarded.
struct ProcessGroupOptions {
    /// The members share this process's session, terminal and input.
    bool is_attached = false;
    /// How long what the members leave running has between SIGTERM and SIGKILL.
    std::chrono::nanoseconds left_grace = std::chrono::seconds(2);
    /// The signals that are blocked in the members; nothing: those that are blocked in this thread.
    std::optional<sigset_t> signals{};
    /// How long one member may take to start: a program is read from a file system that may not answer.
    std::chrono::nanoseconds start_limit = std::chrono::seconds(60);
    /// Asked ten times a second while the members start: true where the start is to be given up.
    std::function<bool()> gives_up{};
};

/// Processes with one guard as their parent, which takes in what they orphan and ends all of it, also what called setsid,
/// ignores SIGTERM or was stopped: once all have ended, when this object goes, and when this process dies, however that
/// happens. Where the guard is killed, its members die with it (Linux).
class ProcessGroup {
public:
    ProcessGroup(ProcessGroup&& other) noexcept
        : guard_(std::exchange(other.guard_, -1)),
          orders_(std::exchange(other.orders_, -1)),
          news_(std::exchange(other.news_, -1)),
          is_over_(other.is_over_),
          has_lost_guard_(other.has_lost_guard_),
          left_(other.left_),
          processes_(std::move(other.processes_)),
          begins_(std::move(other.begins_)) {}
    ProcessGroup& operator=(ProcessGroup&&) = delete;
    /// Kills all that runs, and waits for its end.
    ~ProcessGroup() {
        end_soon(std::chrono::seconds(12));
        if (news_ >= 0) close(news_);
    }

    /// Starts all members; where one cannot be started, none runs.
    ///
    /// Errors  file_not_found, file_unreadable: there is no such program, or none that this user may run;
    ///         deadline_exceeded with the program that did not start in time;
    ///         backend_failure where it was given up, else with the system call
    [[nodiscard]] static Result<ProcessGroup> start(std::vector<GroupMember> const& members,
                                                    ProcessGroupOptions const& options = {}) {
        ProcessGroup out;
        if (auto const begun = out.begin(members, options); !begun) return begun.error();
        return Result<ProcessGroup>(std::move(out));
    }

    [[nodiscard]] pid_t process(std::int32_t member) const { return processes_[static_cast<std::size_t>(member)]; }
    [[nodiscard]] pid_t guard() const { return guard_; }
    /// Becomes readable when there is something to take.
    [[nodiscard]] int descriptor() const { return news_; }
    /// Nothing of the group is left.
    [[nodiscard]] bool is_over() const { return is_over_; }
    /// The guard was killed before all was over.
    [[nodiscard]] bool has_lost_guard() const { return has_lost_guard_; }
    /// How many processes the members had left running when all had ended.
    [[nodiscard]] std::int32_t left() const { return left_; }

    /// The next member that has ended; nothing where the deadline passes before, or all is over.
    [[nodiscard]] std::optional<MemberEnd> take(Deadline deadline) {
        while (!is_over_) {
            auto const news = next(deadline);
            if (!news) break;
            if (news->kind == detail::GroupNews::over) {
                left_ = news->status;
                is_over_ = true;
            }
            if (news->kind == detail::GroupNews::ended) return end_of(*news);
        }
        return std::nullopt;
    }

    /// Sends a signal to all members and their process groups, and makes them go on where they were stopped. SIGKILL ends
    /// everything.
    void send(int signal) const {
        auto const order = static_cast<unsigned char>(signal);
        if (orders_ >= 0) (void)::send(orders_, &order, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    /// Kills the guard itself, where it does not answer: its members die with it.
    void abandon() {
        let_go();
        if (guard_ <= 0) return;
        if (!is_over_) has_lost_guard_ = true;
        if (has_lost_guard_) (void)kill(guard_, SIGKILL);
        while (waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
        }
        guard_ = -1;
        is_over_ = true;
    }

private:
    static constexpr Deadline::Clock::duration look_again = std::chrono::milliseconds(100);

    ProcessGroup() = default;
    /// Has the guard kill all, and kills it where it does not answer in time.
    void end_soon(std::chrono::nanoseconds limit) {
        if (guard_ <= 0) return;
        let_go();
        auto const deadline = Deadline::after(limit);
        while (!is_over_ && !deadline.has_passed()) (void)take(deadline);
        abandon();
    }
    void let_go() {
        if (orders_ >= 0) close(std::exchange(orders_, -1));
    }

    [[nodiscard]] std::optional<detail::GroupNews> next(Deadline deadline) {
        detail::GroupNews news;
        while (true) {
            auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
            pollfd entry{news_, POLLIN, 0};
            auto const ready = poll(&entry, 1, static_cast<int>(left < 1000 ? left : 1000));
            if (ready > 0) {
                auto const got = read(news_, &news, sizeof news);
                if (got == static_cast<ssize_t>(sizeof news)) return news;
                if (got < 0 && errno == EINTR) continue;
                // Its guard was killed: its members with it.
                is_over_ = has_lost_guard_ = true;
                return std::nullopt;
            }
            if (deadline.has_passed()) return std::nullopt;
        }
    }
    [[nodiscard]] MemberEnd end_of(detail::GroupNews const& news) const {
        MemberEnd end;
        end.member = news.member;
        end.process = news.process;
        end.exit_code = WIFEXITED(news.status) ? WEXITSTATUS(news.status) : 0;
        end.signal = WIFSIGNALED(news.status) ? WTERMSIG(news.status) : 0;
        end.has_dumped_core = WIFSIGNALED(news.status) && WCOREDUMP(news.status);
        end.look = news.look;
        end.is_after_signal = news.is_after_signal != 0;
        end.time = std::chrono::nanoseconds(news.moment - begins_[static_cast<std::size_t>(news.member)]);
        return end;
    }

    [[nodiscard]] static std::vector<char*> pointers(std::vector<std::string>& words) {
        std::vector<char*> out;
        for (auto& word : words) out.push_back(word.data());
        out.push_back(nullptr);
        return out;
    }

    [[nodiscard]] Result<> begin(std::vector<GroupMember> members, ProcessGroupOptions const& options) {
        Error error{ErrorCode::backend_failure};
        std::vector<std::vector<char*>> texts;
        std::vector<cpu_set_t> sets(members.size());
        std::vector<detail::GuardedMember> guarded(members.size());
        texts.reserve(2 * members.size());
        for (std::size_t i = 0; i < members.size(); ++i) {
            auto& member = members[i];
            if (member.arguments.empty())
                return Error{ErrorCode::invalid_argument}.in("command").because("has no program");
            texts.push_back(pointers(member.arguments));
            guarded[i].arguments = texts.back().data();
            texts.push_back(pointers(member.environment));
            guarded[i].environment = texts.back().data();
            guarded[i].output = member.output;
            guarded[i].error = member.error;
            CPU_ZERO(&sets[i]);
            for (auto const processor : member.processors) {
                if (processor >= 0 && processor < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(processor), &sets[i]);
            }
            if (CPU_COUNT(&sets[i]) > 0) guarded[i].processors = &sets[i];
        }
        int news[2] = {-1, -1};
        int orders[2] = {-1, -1};
        if (pipe2(news, O_CLOEXEC) != 0) return error.in("pipe2").because(std::strerror(errno));
        // Not a pipe: who writes to a guard that has ended is told so by an error and not by a signal.
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders) != 0) {
            error.in("socketpair").because(std::strerror(errno));
            close(news[0]);
            close(news[1]);
            return error;
        }
        detail::GroupCommand command{guarded.data(),
                                     static_cast<std::int32_t>(guarded.size()),
                                     options.is_attached,
                                     orders[0],
                                     news[1],
                                     options.left_grace.count(),
                                     {}};
        // No handler of this program runs in the guard.
        sigset_t all;
        sigset_t before;
        sigfillset(&all);
        (void)pthread_sigmask(SIG_BLOCK, &all, &before);
        command.signals = options.signals.value_or(before);
        guard_ = fork();
        if (guard_ == 0) {
            close(orders[1]);
            close(news[0]);
            detail::GroupGuard(command).run();
        }
        auto const problem = errno;
        (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
        close(news[1]);
        close(orders[0]);
        news_ = news[0];
        orders_ = orders[1];
        if (guard_ < 0) {
            let_go();
            close(std::exchange(news_, -1));
            return error.in("fork").because(std::strerror(problem));
        }
        return wait_for_starts(members, options);
    }
    [[nodiscard]] Result<> wait_for_starts(std::vector<GroupMember> const& members,
                                           ProcessGroupOptions const& options) {
        auto limit = Deadline::after(options.start_limit);
        auto ask = Deadline::after(look_again);
        while (processes_.size() < members.size()) {
            auto const news = next(limit.moment() < ask.moment() ? limit : ask);
            bool is_given_up = false;
            // Also where members start one soon after another.
            if (!is_over_ && ask.has_passed()) {
                is_given_up = options.gives_up && options.gives_up();
                ask = Deadline::after(look_again);
            }
            if (is_given_up || (!news && !is_over_)) {
                if (!is_given_up && !limit.has_passed()) continue;
                // Its guard may be stopped itself.
                end_soon(std::chrono::seconds(1));
                if (is_given_up) return Error{ErrorCode::backend_failure}.in("start").because("was given up");
                return Error{ErrorCode::deadline_exceeded}
                    .in(members[processes_.size()].arguments.front())
                    .because("did not start in time")
                    .fix("look at the file system that it is on");
            }
            if (news && news->kind == detail::GroupNews::started) {
                processes_.push_back(news->process);
                begins_.push_back(news->moment);
                limit = Deadline::after(options.start_limit);
            } else if (news && news->kind == detail::GroupNews::not_started) {
                auto const at = static_cast<std::size_t>(news->member);
                return refusal(members[at].arguments.front(), news->process > 0, news->status);
            } else {
                return Error{ErrorCode::backend_failure}.in("guard").because("ended before all processes were started");
            }
        }
        return {};
    }
    [[nodiscard]] static Error refusal(std::string const& program, bool has_process, int reason) {
        if (!has_process) return Error{ErrorCode::backend_failure}.in("fork").because(std::strerror(reason));
        if (reason == ENOENT) {
            return Error{ErrorCode::file_not_found}
                .in(program)
                .because("cannot be started: there is no such program")
                .fix("name a program by its path, or one that PATH finds");
        }
        if (reason == EACCES) {
            return Error{ErrorCode::file_unreadable}
                .in(program)
                .because("cannot be started: it may not be executed")
                .fix("name a program, or check its permissions");
        }
        return Error{ErrorCode::backend_failure}
            .in(program)
            .because(std::string("cannot be started: ") + std::strerror(reason))
            .fix("name a program that this machine can execute");
    }

    pid_t guard_ = -1;
    int orders_ = -1;
    int news_ = -1;
    bool is_over_ = false;
    bool has_lost_guard_ = false;
    std::int32_t left_ = 0;
    std::vector<pid_t> processes_;
    std::vector<std::int64_t> begins_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
