// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/system/system_files.hpp>
#include <shardwise/launch/first_failure.hpp>
#include <shardwise/launch/launch_options.hpp>
#include <shardwise/launch/process_group.hpp>
#include <shardwise/launch/rank_outputs.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Signals that ask the launcher to end, as data.
struct StopSignals {
    /// Becomes readable when there is one; below zero: none come.
    int descriptor = -1;
    /// The next one; nothing where there is none.
    std::function<std::optional<int>()> next{};
};

/// How a launch ended.
struct LaunchEnd {
    /// The signal that asked the launcher to end; 0 where none did.
    int signal = 0;
    /// The ranks of the last attempt that failed first.
    std::vector<RankFailure> failures;
    std::int32_t restarts = 0;
    /// What broke beside the ranks: their guard was killed, their output does not reach its reader.
    std::optional<Error> problem;

    [[nodiscard]] bool is_success() const { return signal == 0 && failures.empty() && !problem; }
    /// 0; 128 + the signal that stopped it; else 1.
    [[nodiscard]] int exit_code() const { return signal != 0 ? 128 + signal : is_success() ? 0 : 1; }
};

/// Launches ranks on this machine: starts them under a guard, passes their output on, ends all when one fails or a signal
/// comes, tells of the first failure, and starts all anew as often as allowed. Nothing is left at its end.
class RankLaunch {
public:
    RankLaunch(LaunchOptions options, StopSignals stops, SystemFiles files = SystemFiles{})
        : options_(std::move(options)), stops_(std::move(stops)), files_(std::move(files)) {}

    /// Runs until all ranks have ended.
    ///
    /// Errors  those of check_launch, of RankOutputs::open and ProcessGroup::start: no rank was started
    [[nodiscard]] Result<LaunchEnd> run() {
        if (auto const checked = check_launch(options_); !checked) return checked.error();
        if (options_.takes_orphans) (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        bool const chooses_port = options_.port == 0;
        if (options_.run.empty()) {
            options_.run = options_.nodes > 1 ? options_.address + "-" + std::to_string(options_.port)
                                              : "launch-" + std::to_string(getpid()) + "-" +
                                                    std::to_string(Deadline::Clock::now().time_since_epoch().count());
        }
        while (true) {
            if (chooses_port) {
                auto const port = find_free_port();
                if (!port) return port.error();
                options_.port = *port;
            }
            if (auto const done = attempt(); !done) return done.error();
            if (end_.failures.empty() || end_.problem || end_.signal != 0 || end_.restarts >= options_.max_restarts)
                break;
            ++end_.restarts;
        }
        return end_;
    }

private:
    using Clock = Deadline::Clock;

    /// One life of the group.
    struct Attempt {
        RankOutputs outputs;
        ProcessGroup group;
        std::vector<MemberEnd> ends{};
        /// When what still runs is killed; and when its guard is.
        std::optional<Deadline> limit{};
        bool is_killed = false;
        bool is_ending = false;
    };

    [[nodiscard]] Result<> attempt() {
        end_.failures.clear();
        auto outputs = RankOutputs::open(
            options_.first_rank(), options_.processes,
            {options_.has_prefix, options_.log_folder, end_.restarts > 0, STDOUT_FILENO, STDERR_FILENO});
        if (!outputs) return outputs.error();
        std::vector<GroupMember> members;
        for (std::int32_t i = 0; i < options_.processes; ++i) {
            GroupMember member{options_.command,
                               environment_of_rank(options_, i, end_.restarts),
                               outputs->output_of(i),
                               outputs->error_of(i),
                               {}};
            if (!options_.devices.empty()) member.processors = options_.devices[static_cast<std::size_t>(i)].processors;
            members.push_back(std::move(member));
        }
        auto const oom_kills = count_oom_kills(files_);
        ProcessGroupOptions how;
        how.left_grace = std::min<std::chrono::nanoseconds>(options_.grace, std::chrono::seconds(2));
        how.signals = options_.signals;
        how.gives_up = [this] { return take_early_stop(); };
        auto group = ProcessGroup::start(members, how);
        if (!group) {
            // A guard that was killed while it started them leaves what the first ones had started.
            if (options_.takes_orphans) detail::kill_children();
            if (end_.signal != 0) return {};
            return group.error();
        }
        outputs->close_writing();
        Attempt now{*std::move(outputs), *std::move(group)};
        while (!now.group.is_over()) step(now);
        if (now.group.has_lost_guard()) lose_guard(now);
        now.group.abandon();
        drain(now);
        tell(now, oom_kills);
        flush(now);
        return {};
    }

    /// True where a signal has asked to end before all ranks were started.
    [[nodiscard]] bool take_early_stop() {
        while (auto const signal = stops_.next ? stops_.next() : std::nullopt) {
            if (end_.signal == 0) end_.signal = *signal;
        }
        return end_.signal != 0;
    }

    /// Waits for the next thing to happen, and does what it asks for.
    void step(Attempt& now) {
        std::vector<pollfd> entries{{now.group.descriptor(), POLLIN, 0}};
        if (stops_.descriptor >= 0) entries.push_back({stops_.descriptor, POLLIN, 0});
        now.outputs.add_to(entries);
        auto timeout = std::chrono::milliseconds(1000);
        if (now.limit) timeout = std::min(timeout, std::chrono::ceil<std::chrono::milliseconds>(now.limit->left()));
        (void)poll(entries.data(), entries.size(), static_cast<int>(timeout.count()));
        take_stops(now);
        auto const at_once = Deadline::after(std::chrono::nanoseconds(0));
        while (auto const end = now.group.take(at_once)) {
            now.ends.push_back(*end);
            if (!end->is_success() && !end->is_after_signal) end_group(now, SIGTERM);
        }
        (void)now.outputs.pass_on();
        check_outputs(now);
        if (!now.limit || !now.limit->has_passed()) return;
        if (!now.is_killed)
            kill_group(now);
        else
            now.group.abandon();
    }
    void take_stops(Attempt& now) {
        while (auto const signal = stops_.next ? stops_.next() : std::nullopt) {
            bool const is_first = end_.signal == 0;
            if (is_first) {
                end_.signal = *signal;
                // Also where a failure has begun its end already: the user's word is the newer one.
                now.is_ending = false;
                end_group(now, *signal);
            } else if (*signal == SIGINT) {
                kill_group(now);
            }
        }
    }
    void end_group(Attempt& now, int signal) {
        if (std::exchange(now.is_ending, true)) return;
        now.group.send(signal);
        if (!now.limit) now.limit = Deadline::after(options_.grace);
    }
    void kill_group(Attempt& now) {
        if (std::exchange(now.is_killed, true)) return;
        now.is_ending = true;
        now.group.send(SIGKILL);
        // The guard itself waits for 10 s for what the system does not let go; one that is stopped does not answer.
        now.limit = Deadline::after(std::chrono::seconds(options_.takes_orphans ? 1 : 12));
    }
    void check_outputs(Attempt& now) {
        if (auto const& problem = now.outputs.log_problem(); problem && !end_.problem) {
            end_.problem = problem;
            now.outputs.say("shardwise: " + problem->message() + "; this log ends here\n");
        }
        auto const checked = now.outputs.check();
        if (checked || is_cut_off_) return;
        // As a program of a pipe ends when nobody reads it.
        is_cut_off_ = true;
        end_.problem = checked.error();
        end_group(now, SIGTERM);
    }

    void lose_guard(Attempt& now) {
        if (options_.takes_orphans) detail::kill_children();
        // Where it was killed because it did not answer, how it all began is known.
        if (now.is_ending) return;
        end_.problem = Error{ErrorCode::backend_failure}
                           .in("guard")
                           .because("was killed, and the ranks with it")
                           .fix("look for what kills processes: memory, a batch system");
    }

    /// Reads what the ranks have written before they ended.
    void drain(Attempt& now) {
        auto const begin = Clock::now();
        while (!is_given_up(now, begin)) {
            if (now.outputs.pass_on()) continue;
            check_outputs(now);
            if (!now.outputs.is_held_up() || is_cut_off_) break;
            wait_for_outputs(now);
        }
        now.outputs.finish();
    }
    void flush(Attempt& now) {
        auto const begin = Clock::now();
        while (!is_given_up(now, begin) && !now.outputs.flush(Deadline::after(std::chrono::milliseconds(50))))
            take_stops(now);
        check_outputs(now);
    }
    void wait_for_outputs(Attempt& now) {
        std::vector<pollfd> entries;
        if (stops_.descriptor >= 0) entries.push_back({stops_.descriptor, POLLIN, 0});
        now.outputs.add_to(entries);
        (void)poll(entries.data(), entries.size(), 100);
        take_stops(now);
    }
    /// A reader that is slow is waited for, but not once a signal asks to end.
    [[nodiscard]] bool is_given_up(Attempt& now, Clock::time_point begin) {
        take_stops(now);
        return end_.signal != 0 && Clock::now() - begin > std::chrono::milliseconds(500);
    }

    /// Tells of the first failure, and that all is started anew.
    void tell(Attempt& now, std::optional<std::int64_t> oom_kills) {
        if (end_.signal == 0) {
            auto const counted = count_oom_kills(files_);
            auto const host = own_host_name();
            for (auto const& end : first_failures(now.ends)) {
                RankFailure failure;
                failure.end = end;
                failure.rank = options_.first_rank() + end.member;
                failure.host = host;
                if (!options_.devices.empty())
                    failure.device = options_.devices[static_cast<std::size_t>(end.member)].name;
                if (counted && oom_kills) failure.oom_kills = *counted - *oom_kills;
                failure.last_lines = now.outputs.last_errors(end.member);
                end_.failures.push_back(std::move(failure));
            }
            now.outputs.say(failure_text(end_.failures));
        }
        if (now.group.left() > 0) {
            now.outputs.say("shardwise: processes that the ranks had left running and that were ended: " +
                            std::to_string(now.group.left()) + "\n");
        }
        bool const is_again = !end_.failures.empty() && !end_.problem && end_.restarts < options_.max_restarts;
        if (is_again) {
            now.outputs.say("shardwise: starting all ranks anew, " + std::to_string(end_.restarts + 1) + " of " +
                            std::to_string(options_.max_restarts) + "\n");
        }
    }

    LaunchOptions options_;
    StopSignals stops_;
    SystemFiles files_;
    LaunchEnd end_;
    bool is_cut_off_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
