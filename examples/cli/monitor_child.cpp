// SPDX-License-Identifier: Apache-2.0
#include "monitor_child.hpp"

#include <csignal>
#include <cstring>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>

namespace shardwise::cli {

Result<MonitorChild> MonitorChild::start(std::vector<std::string> const& words, ProgramSignals const& signals) {
    // What a guard leaves that is killed itself becomes ours instead of init's.
    (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);
    GroupMember member;
    member.arguments = words;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) member.environment.emplace_back(*entry);
    ProcessGroupOptions options;
    options.is_attached = true;
    options.signals = signals.before();
    auto group = ProcessGroup::start({std::move(member)}, options);
    if (!group) return group.error();
    return Result<MonitorChild>(MonitorChild(*std::move(group)));
}

void MonitorChild::take(signalfd_siginfo const& signal) {
    auto const number = static_cast<int>(signal.ssi_signo);
    if (has_ended_ || !ProgramSignals::is_end(signal)) return;
    // Ctrl-C and its like reach the command from the terminal itself.
    if (signal.ssi_code == SI_KERNEL) return;
    if (number == SIGINT && ++interrupts_ > 1) {
        group_.send(SIGKILL);
        return;
    }
    group_.send(number);
    if (number != SIGINT && !std::exchange(has_limit_, true))
        limit_ = std::chrono::steady_clock::now() + std::chrono::seconds(10);
}

void MonitorChild::look() {
    if (auto const end = group_.take(Deadline::after(std::chrono::nanoseconds(0)))) {
        has_ended_ = true;
        signal_ = end->signal;
        exit_code_ = signal_ != 0 ? 128 + signal_ : end->exit_code;
    } else if (!has_ended_ && group_.is_over()) {
        // Its guard was killed, and it died with it.
        has_ended_ = true;
        signal_ = SIGKILL;
        exit_code_ = 128 + SIGKILL;
    }
    if (has_limit_ && !has_ended_ && std::chrono::steady_clock::now() > limit_) group_.send(SIGKILL);
}

std::string MonitorChild::end_text() const {
    if (signal_ != 0) return "was ended by signal " + std::to_string(signal_) + " (" + ::strsignal(signal_) + ")";
    return "ended with exit code " + std::to_string(exit_code_);
}

int MonitorChild::sweep() {
    // Longer than the guard itself takes.
    auto const deadline = Deadline::after(std::chrono::seconds(15));
    while (!group_.is_over() && !deadline.has_passed()) (void)group_.take(deadline);
    if (!group_.is_over()) group_.abandon();
    if (group_.has_lost_guard()) detail::kill_children();
    return group_.left();
}

}  // namespace shardwise::cli
