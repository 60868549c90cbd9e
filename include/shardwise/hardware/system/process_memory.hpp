// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/hardware/system/system_files.hpp>
#include <shardwise/hardware/system/system_memory.hpp>

#include <optional>

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
    auto const status = files.text("/proc/self/status");
    if (!status) return std::nullopt;
    auto const resident = detail::meminfo_row(*status, "VmRSS");
    auto const peak = detail::meminfo_row(*status, "VmHWM");
    if (!resident || !peak) return std::nullopt;
    return ProcessMemory{*resident, *peak};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
