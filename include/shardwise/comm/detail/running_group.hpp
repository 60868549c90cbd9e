// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/detail/group_beacon.hpp>
#include <shardwise/comm/detail/group_region.hpp>
#include <shardwise/comm/detail/shared_region.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A group of processes that is complete, has not failed and has lost none of its ranks.
class RunningGroup {
public:
    /// The one of this user that has the key, if there is one.
    [[nodiscard]] static std::optional<RunningGroup> of(std::string_view key) {
        auto const seen = GroupBeacon::seen(SharedRegion::number_of(key));
        for (std::size_t i = 0; i < seen.size(); ++i) {
            auto const is_same = [&](GroupMemory const& other) { return other.inode == seen[i].inode; };
            if (std::any_of(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(i), is_same)) continue;
            auto const shared = SharedRegion::look_at(key, seen[i].path);
            if (!shared) continue;
            RunningGroup group;
            if (group.read(*shared, seen[i].inode, seen)) return group;
        }
        return std::nullopt;
    }

    [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(processes_.size()); }
    [[nodiscard]] pid_t process_of(std::int32_t rank) const { return processes_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] bool has(pid_t process) const {
        return std::find(processes_.begin(), processes_.end(), process) != processes_.end();
    }

private:
    [[nodiscard]] bool read(SharedRegion const& shared, ino_t inode, std::vector<GroupMemory> const& seen) {
        if (!shared.is_complete() || shared.region().poison.load(std::memory_order_acquire) != Poison::none)
            return false;
        for (std::int32_t rank = 0; rank < shared.header().ranks; ++rank) {
            auto const process = shared.region().slot(rank).process.load(std::memory_order_acquire);
            // Who left or ended holds nothing, and a process that has its number by now holds something else.
            auto const holds = [&](GroupMemory const& held) { return held.inode == inode && held.process == process; };
            if (std::none_of(seen.begin(), seen.end(), holds)) return false;
            processes_.push_back(process);
        }
        return true;
    }

    std::vector<pid_t> processes_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
