// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program_signals.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace shardwise::cli {

/// How long a command may take, and what happens meanwhile.
struct ChildWatch {
    std::chrono::steady_clock::time_point deadline;
    /// Where the program's own end is asked for; nullptr: signals do what they always do.
    ProgramSignals const* signals = nullptr;
    /// Where its own end is asked for, the command still has fifteen seconds to come to its end.
    bool may_finish = false;
    /// stderr goes where stdout goes, in the order of writing.
    bool has_one_output = false;
    /// Called ten times a second.
    std::function<void()> tick{};
};

/// What became of a command.
struct ChildAnswer {
    /// Its exit status; 127 where it is not installed, -1 where it was ended.
    int status = -1;
    /// The first MiB of each.
    std::string out;
    std::string err;
    /// It was ended because the deadline had passed.
    bool is_late = false;
    /// The signal by which the program's own end was asked for meanwhile; 0: none.
    int signal = 0;
};

/// Runs a command without a shell and without input, in a process group of its own, so that Ctrl-C does not reach it. Returns
/// by the deadline, and seven seconds for a command that must be ended.
[[nodiscard]] ChildAnswer run_child(std::vector<std::string> words, ChildWatch const& watch);

}  // namespace shardwise::cli
