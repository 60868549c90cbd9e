// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/hardware/system/system_files.hpp>
#include <shardwise/hardware/system/system_memory.hpp>
#include <shardwise/launch/process_group.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The members that failed first: those that had ended when the guard saw the first end that was no success. Never one that
/// the guard had already asked to end, since that is a consequence.
///
/// Order  of members; several: which was the first is unknown
[[nodiscard]] inline std::vector<MemberEnd> first_failures(std::vector<MemberEnd> const& ends) {
    std::optional<std::int32_t> look;
    for (auto const& end : ends) {
        if (!end.is_success() && !end.is_after_signal && (!look || end.look < *look)) look = end.look;
    }
    std::vector<MemberEnd> out;
    for (auto const& end : ends) {
        if (!end.is_success() && !end.is_after_signal && look && end.look == *look) out.push_back(end);
    }
    std::sort(out.begin(), out.end(), [](auto const& a, auto const& b) { return a.member < b.member; });
    return out;
}

/// How many processes of this process's control group the kernel has killed for want of memory; nothing where it does
/// not say.
///
/// Source  Linux Documentation/admin-guide/cgroup-v2.rst (memory.events), cgroup-v1/memory.rst (memory.oom_control)
[[nodiscard]] inline std::optional<std::int64_t> count_oom_kills(SystemFiles const& files) {
    std::optional<std::int64_t> found;
    detail::ControlGroups const groups(files, Bytes{0});
    groups.for_each_group([&](std::string const& folder, auto const&) {
        for (char const* const name : {"/memory.events", "/memory.oom_control"}) {
            // The innermost group that counts.
            if (found) return;
            auto const table = files.text(folder + name);
            if (!table) continue;
            for (auto const line : detail::split_text(*table, '\n')) {
                constexpr std::string_view key = "oom_kill ";
                if (line.substr(0, key.size()) == key) found = detail::to_integer(line.substr(key.size()));
            }
        }
    });
    return found;
}

/// A rank that failed, as the launcher tells of it.
struct RankFailure {
    MemberEnd end{};
    std::int32_t rank = 0;
    std::string host;
    /// "" where the rank sees all devices.
    std::string device;
    /// OOM kills that the control group counted meanwhile.
    std::int64_t oom_kills = 0;
    /// The last lines of its standard error.
    std::deque<std::string> last_lines;
};

/// "exit code 3", "signal 11 (Segmentation fault), core dumped".
[[nodiscard]] inline std::string end_text(RankFailure const& failure) {
    auto const& end = failure.end;
    if (end.signal == 0) return "exit code " + std::to_string(end.exit_code);
    auto out = "signal " + std::to_string(end.signal) + " (" + strsignal(end.signal) + ")";
    out += end.has_dumped_core ? ", core dumped" : "";
    if (end.signal == SIGKILL && failure.oom_kills > 0) {
        out += failure.oom_kills == 1 ? ", OOM kill: the control group counted one"
                                      : ", OOM kill: the control group counted " + std::to_string(failure.oom_kills);
    }
    return out;
}

/// What the launcher says about the ranks that failed first: a line for each, and what it wrote last.
///
/// Example  shardwise: rank 2 failed: exit code 3 after 0.52 s (host a, pid 4711, all devices); the last lines of its stderr:
[[nodiscard]] inline std::string failure_text(std::vector<RankFailure> const& failures) {
    std::string out;
    if (failures.size() > 1) {
        out +=
            "shardwise: " + std::to_string(failures.size()) +
            " ranks failed simultaneously: they had ended before the guard looked, and any of them may be the first\n";
    }
    for (auto const& failure : failures) {
        char seconds[32];
        auto const time = std::chrono::duration<double>(failure.end.time).count();
        (void)std::snprintf(seconds, sizeof seconds, "%.2f s", time < 0.0 ? 0.0 : time);
        out += "shardwise: rank " + std::to_string(failure.rank) + " failed: " + end_text(failure) + " after " +
               seconds + " (host " + escaped(failure.host) + ", pid " + std::to_string(failure.end.process) + ", " +
               (failure.device.empty() ? "all devices" : "device " + escaped(failure.device)) + ")";
        if (failure.last_lines.empty()) {
            out += "; it wrote nothing to stderr\n";
            continue;
        }
        out += "; its last " + std::to_string(failure.last_lines.size()) +
               (failure.last_lines.size() == 1 ? " line" : " lines") + " of stderr:\n";
        for (auto const& line : failure.last_lines) out += "  | " + line + "\n";
    }
    return out;
}

/// The name of this machine.
[[nodiscard]] inline std::string own_host_name() {
    char name[256] = {};
    return gethostname(name, sizeof name - 1) == 0 ? std::string(name) : std::string("unknown");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
