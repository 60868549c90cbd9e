// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/launch/process_group.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
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

/// Processes of this machine that live no longer than this object and this process, with all that they have started: a
/// ProcessGroup that passes on this process's environment and ends all when one fails.
class LocalProcesses {
public:
    /// Starts all of them; where one cannot be started, none runs.
    ///
    /// Errors  those of ProcessGroup::start
    [[nodiscard]] static Result<LocalProcesses> start(std::vector<ProcessCommand> const& commands) {
        LocalProcesses out;
        if (commands.empty()) return Result<LocalProcesses>(std::move(out));
        auto const nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (nowhere < 0) return Error{ErrorCode::file_unreadable}.in("/dev/null").because(std::strerror(errno));
        std::vector<GroupMember> members;
        for (auto const& command : commands) {
            members.push_back({command.arguments, environment_of(command), command.is_quiet ? nowhere : -1, -1, {}});
        }
        auto group = ProcessGroup::start(members);
        close(nowhere);
        if (!group) return group.error();
        out.group_ = std::make_unique<ProcessGroup>(*std::move(group));
        out.ends_.resize(commands.size());
        return Result<LocalProcesses>(std::move(out));
    }

    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(ends_.size()); }
    [[nodiscard]] pid_t number(std::int32_t process) const { return group_->process(process); }
    /// How a process ended; nothing while it runs, as far as it was waited for.
    [[nodiscard]] std::optional<MemberEnd> end_of(std::int32_t process) const {
        return ends_[static_cast<std::size_t>(process)];
    }

    /// The next process that has ended and was not told of yet; nothing where the deadline passes before, or all have
    /// ended and nothing that they started is left.
    [[nodiscard]] std::optional<MemberEnd> wait(Deadline deadline) {
        if (!group_) return std::nullopt;
        auto end = group_->take(deadline);
        if (!end && group_->has_lost_guard()) end = lost_one();
        if (end) ends_[static_cast<std::size_t>(end->member)] = end;
        return end;
    }

    /// Waits for all of them; the first that did not succeed ends all others, within `grace`.
    ///
    /// Errors  rank_lost with the number of the process and how it ended; deadline_exceeded with those that still ran
    [[nodiscard]] Result<> wait_for_all(Deadline deadline, std::chrono::nanoseconds grace = std::chrono::seconds(10)) {
        while (auto const end = wait(deadline)) {
            if (end->is_success()) continue;
            end_all(grace);
            return Error{ErrorCode::rank_lost}
                .in("rank " + std::to_string(end->member))
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

    /// Ends all that run, with all that they started: asks them first, and kills them once `grace` is over.
    void end_all(std::chrono::nanoseconds grace) {
        if (group_ && grace.count() > 0) {
            group_->send(SIGTERM);
            auto const deadline = Deadline::after(grace);
            while (wait(deadline)) {
            }
        }
        // Its guard kills all that is left.
        group_.reset();
        ends_.clear();
    }

private:
    /// A process that died with its guard, one that was not told of.
    [[nodiscard]] std::optional<MemberEnd> lost_one() const {
        auto const at = std::find_if(ends_.begin(), ends_.end(), [](auto const& end) { return !end; });
        if (at == ends_.end()) return std::nullopt;
        MemberEnd end;
        end.member = static_cast<std::int32_t>(at - ends_.begin());
        end.process = number(end.member);
        end.signal = SIGKILL;
        return end;
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

    std::unique_ptr<ProcessGroup> group_;
    std::vector<std::optional<MemberEnd>> ends_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
