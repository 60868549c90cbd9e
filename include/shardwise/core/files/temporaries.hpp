// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/file.h>
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

/// Whether a file has such a name: the process's number, another number and the suffix follow.
[[nodiscard]] inline bool is_temporary(std::string_view name, std::string_view prefix) {
    if (!name.starts_with(prefix) || !name.ends_with(temporary_suffix)) return false;
    name.remove_prefix(prefix.size());
    name.remove_suffix(temporary_suffix.size());
    auto const dash = name.find('-');
    auto const is_number = [](std::string_view text) {
        return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    };
    return dash != std::string_view::npos && is_number(name.substr(0, dash)) && is_number(name.substr(dash + 1));
}

/// Removes a file that nobody is writing: who writes one holds a lock on it, which goes with the process, however that ends. Numbers of
/// processes would say nothing: those of another container on this machine are others, and a container that starts again has the same.
inline void remove_unlocked(std::string const& path) {
    int const descriptor = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) return;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) (void)::unlink(path.c_str());
    ::close(descriptor);
}

}  // namespace detail

/// Removes from a folder what processes of this machine left that were killed in write_file. What cannot be removed stays.
inline void remove_temporaries(std::string const& folder) {
    DIR* const opened = ::opendir(folder.empty() ? "." : folder.c_str());
    if (opened == nullptr) return;
    auto const prefix = detail::temporary_prefix();
    std::vector<std::string> names;
    while (auto const* const entry = ::readdir(opened)) {
        if (detail::is_temporary(entry->d_name, prefix)) names.emplace_back(entry->d_name);
    }
    ::closedir(opened);
    for (auto const& name : names) detail::remove_unlocked(folder.empty() ? name : folder + "/" + name);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
