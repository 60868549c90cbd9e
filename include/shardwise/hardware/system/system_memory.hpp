// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/hardware/system/system_files.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What memory this process may use: the machine's, narrowed by the control groups that it runs in.
struct SystemMemory {
    /// All of it, or the tightest limit of a control group.
    Bytes total{};
    /// What can be had now without swapping.
    Bytes available{};
    /// The tightest limit of a control group; negative where none limits below the machine's memory.
    Bytes limit{-1};
};

namespace detail {

/// Reads the limits of the memory controller: version 2 and version 1, nested groups, in and out of containers.
///
/// Source  Linux Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst
class ControlGroups {
public:
    ControlGroups(SystemFiles const& files, Bytes machine) : files_(files), machine_(machine) {}

    /// The names of a version's files, which stand after a group's folder.
    struct FileNames {
        std::string_view limit, usage, stat, inactive;
    };

    void narrow(SystemMemory& memory) const {
        for_each_group(
            [&](std::string const& folder, FileNames const& names) { narrow_by_group(memory, folder, names); });
    }
    /// Calls `visit(folder, names)` for each group that this process is in, from the innermost out.
    template <class Visitor>
    void for_each_group(Visitor&& visit) const {
        auto const groups = files_.text("/proc/self/cgroup");
        if (!groups) return;
        for (auto const line : split_text(*groups, '\n')) {
            // hierarchy:controllers:path
            auto const first = line.find(':');
            auto const second = first == std::string_view::npos ? first : line.find(':', first + 1);
            if (second == std::string_view::npos) continue;
            auto const controllers = line.substr(first + 1, second - first - 1);
            auto const path = line.substr(second + 1);
            if (controllers.empty()) {
                visit_groups(find_mount("cgroup2", {}, "/sys/fs/cgroup"), path, version_2, visit);
            } else if (has_word(controllers, "memory")) {
                visit_groups(find_mount("cgroup", "memory", "/sys/fs/cgroup/memory"), path, version_1, visit);
            }
        }
    }

private:
    struct Mount {
        std::string folder;
        /// The group that the folder shows: "/" outside of containers.
        std::string group;
    };
    static constexpr FileNames version_2{"/memory.max", "/memory.current", "/memory.stat", "inactive_file"};
    static constexpr FileNames version_1{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "/memory.stat",
                                         "total_inactive_file"};

    static bool has_word(std::string_view list, std::string_view word) {
        for (auto const part : split_text(list, ',')) {
            if (part == word) return true;
        }
        return false;
    }

    [[nodiscard]] Mount find_mount(std::string_view type, std::string_view controller, std::string usual) const {
        auto const table = files_.text("/proc/self/mountinfo");
        if (!table) return {std::move(usual), "/"};
        for (auto const line : split_text(*table, '\n')) {
            // id parent device root mount-point options [optional ...] - type source super-options
            auto const dash = line.find(" - ");
            if (dash == std::string_view::npos) continue;
            auto const before = split_text(line.substr(0, dash), ' ');
            auto const after = split_text(line.substr(dash + 3), ' ');
            if (before.size() < 5 || after.size() < 3 || after[0] != type) continue;
            if (!controller.empty() && !has_word(after[2], controller)) continue;
            return {std::string(before[4]), std::string(before[3])};
        }
        return {std::move(usual), "/"};
    }

    /// A group's folder below the mount: in a container the mount shows a subtree whose name the path may begin with.
    static std::string relative_path(std::string_view path, std::string_view group) {
        if (group != "/" && path.substr(0, group.size()) == group &&
            (path.size() == group.size() || path[group.size()] == '/')) {
            path.remove_prefix(group.size());
        }
        // "/../x": the process sits outside of the subtree that it sees; only the subtree's own limit can be read.
        if (path == "/" || path.find("..") != std::string_view::npos) path = {};
        return std::string(path);
    }

    template <class Visitor>
    static void visit_groups(Mount const& mount, std::string_view path, FileNames const& names, Visitor&& visit) {
        auto group = relative_path(path, mount.group);
        while (true) {
            visit(mount.folder + group, names);
            if (group.empty()) return;
            auto const slash = group.rfind('/');
            group.resize(slash == std::string::npos ? 0 : slash);
        }
    }

    void narrow_by_group(SystemMemory& memory, std::string const& folder, FileNames const& names) const {
        // "max" is no number: no limit.
        auto const limit = files_.integer(folder + std::string(names.limit));
        if (!limit || *limit < 0 || Bytes{*limit} >= machine_) return;
        memory.total = std::min(memory.total, Bytes{*limit});
        memory.limit = memory.total;
        // Also where an outer group allows more than an inner one: its other members may have used it up.
        auto const used = std::max<std::int64_t>(
            files_.integer(folder + std::string(names.usage)).value_or(0) - inactive(folder, names), 0);
        memory.available = std::min(memory.available, Bytes{std::max<std::int64_t>(*limit - used, 0)});
    }

    /// File cache that the kernel gives back when memory is asked for.
    [[nodiscard]] std::int64_t inactive(std::string const& folder, FileNames const& names) const {
        auto const table = files_.text(folder + std::string(names.stat));
        if (!table) return 0;
        for (auto const line : split_text(*table, '\n')) {
            auto const blank = line.find(' ');
            if (blank == std::string_view::npos || line.substr(0, blank) != names.inactive) continue;
            return std::max<std::int64_t>(to_integer(line.substr(blank + 1)).value_or(0), 0);
        }
        return 0;
    }

    SystemFiles const& files_;
    Bytes machine_;
};

/// A row of a table like /proc/meminfo: "MemTotal:  16 kB", "Node 0 MemTotal: 16 kB". Nothing where it is absent.
[[nodiscard]] inline std::optional<Bytes> meminfo_row(std::string_view table, std::string_view name) {
    for (auto const line : split_text(table, '\n')) {
        auto const at = line.find(name);
        if (at == std::string_view::npos || (at > 0 && line[at - 1] != ' ')) continue;
        auto rest = line.substr(at + name.size());
        if (rest.empty() || rest[0] != ':') continue;
        rest = trimmed(rest.substr(1));
        auto const kibibytes = to_integer(rest.substr(0, rest.find(' ')));
        if (!kibibytes || *kibibytes < 0 || *kibibytes > (INT64_MAX >> 10)) return std::nullopt;
        return Bytes{*kibibytes << 10};
    }
    return std::nullopt;
}

}  // namespace detail

/// The memory of this machine that this process may use; zeros where /proc says nothing.
[[nodiscard]] inline SystemMemory read_system_memory(SystemFiles const& files) {
    SystemMemory memory;
    auto const table = files.text("/proc/meminfo");
    if (table) {
        memory.total = detail::meminfo_row(*table, "MemTotal").value_or(Bytes{});
        auto const free = detail::meminfo_row(*table, "MemFree").value_or(memory.total);
        // Kernels before 3.14 have no MemAvailable.
        memory.available = std::min(detail::meminfo_row(*table, "MemAvailable").value_or(free), memory.total);
    }
    detail::ControlGroups(files, memory.total).narrow(memory);
    return memory;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
