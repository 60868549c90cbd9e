// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/hardware/system/system_files.hpp>

#include <optional>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What this process holds in physical memory, the pages of its program among it.
struct ProcessMemory {
    /// Now (VmRSS), and at most so far (VmHWM).
    Bytes resident{};
    Bytes peak{};
};

/// Reads it from /proc/self/status; nothing where the kernel does not tell.
///
/// Source  proc_pid_status(5)
[[nodiscard]] inline std::optional<ProcessMemory> read_process_memory(SystemFiles const& files = SystemFiles()) {
    constexpr std::string_view unit = " kB";
    auto const status = files.text("/proc/self/status");
    if (!status) return std::nullopt;
    std::optional<Bytes> resident;
    std::optional<Bytes> peak;
    for (auto line : detail::split_text(*status, '\n')) {
        auto const colon = line.find(':');
        if (colon == std::string_view::npos || !line.ends_with(unit)) continue;
        auto const kibibytes = detail::to_integer(line.substr(colon + 1, line.size() - unit.size() - colon - 1));
        if (!kibibytes) continue;
        if (line.starts_with("VmRSS:")) resident = Bytes{*kibibytes * 1024};
        if (line.starts_with("VmHWM:")) peak = Bytes{*kibibytes * 1024};
    }
    if (!resident || !peak) return std::nullopt;
    return ProcessMemory{*resident, *peak};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
