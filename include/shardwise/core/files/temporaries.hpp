// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <dirent.h>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

inline constexpr std::string_view temporary_suffix = ".tmp";

/// How the names of files begin that this machine writes before it renames them; a process's number follows.
[[nodiscard]] inline std::string temporary_prefix() {
    std::array<char, 65> host{};
    (void)::gethostname(host.data(), host.size() - 1);
    return ".shardwise-" + std::string(host.data()) + "-";
}

/// Whether a file of that name was left by a process of this machine that is no more.
[[nodiscard]] inline bool is_left_over(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix) || !name.ends_with(temporary_suffix)) return false;
    name.remove_prefix(prefix.size());
    pid_t process = 0;
    auto const read = std::from_chars(name.data(), name.data() + name.size(), process);
    if (read.ec != std::errc() || process <= 0) return false;
    return ::kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace detail

/// Removes from a folder what processes of this machine left that were killed in write_file. What cannot be removed stays.
inline void remove_temporaries(std::string const& folder) {
    DIR* const opened = ::opendir(folder.empty() ? "." : folder.c_str());
    if (opened == nullptr) return;
    auto const prefix = detail::temporary_prefix();
    std::vector<std::string> names;
    while (auto const* const entry = ::readdir(opened)) {
        if (detail::is_left_over(entry->d_name, prefix)) names.emplace_back(entry->d_name);
    }
    ::closedir(opened);
    for (auto const& name : names) (void)::unlink((folder.empty() ? name : folder + "/" + name).c_str());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
