// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/write_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/train/checkpoint/file_calls.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <dirent.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The name of the checkpoint after so many finished steps: "step-000004".
[[nodiscard]] inline std::string checkpoint_name(std::int64_t step) {
    constexpr std::size_t digits = 6;
    auto const number = std::to_string(step);
    return "step-" + std::string(number.size() < digits ? digits - number.size() : 0, '0') + number;
}

/// The step of such a name; nothing for any other.
[[nodiscard]] inline std::optional<std::int64_t> checkpoint_step(std::string_view name) {
    constexpr std::string_view start = "step-";
    if (!name.starts_with(start)) return std::nullopt;
    std::int64_t step = -1;
    auto const* const end = name.data() + name.size();
    auto const read = std::from_chars(name.data() + start.size(), end, step);
    if (read.ec != std::errc() || read.ptr != end || step < 0 || checkpoint_name(step) != name) return std::nullopt;
    return step;
}

namespace detail {

/// Folders that are written, and those that are removed: their names do not begin with "step-".
inline constexpr std::string_view saving_prefix = ".saving-";
inline constexpr std::string_view removed_prefix = ".removed-";

/// All names in a folder, sorted; empty where it cannot be listed.
[[nodiscard]] inline std::vector<std::string> entries_of(std::string const& path) {
    std::vector<std::string> names;
    DIR* const folder = ::opendir(path.c_str());
    if (folder == nullptr) return names;
    while (auto const* const entry = ::readdir(folder)) {
        std::string_view const name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    ::closedir(folder);
    std::sort(names.begin(), names.end());
    return names;
}

/// Removes a file, or a folder with what is in it; links are removed, not followed. 0 or an errno.
template <class Calls>
int remove_all(std::string const& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT ? 0 : errno;
    if (!S_ISDIR(status.st_mode)) return Calls::remove_file(path.c_str()) == 0 ? 0 : errno;
    for (auto const& name : entries_of(path)) {
        if (auto const code = remove_all<Calls>(path + "/" + name); code != 0) return code;
    }
    return Calls::remove_folder(path.c_str()) == 0 ? 0 : errno;
}

/// Makes what was renamed or made in a folder last. 0 or an errno.
template <class Calls>
int sync_folder(std::string const& path) {
    auto const descriptor = Calls::open(path.c_str(), O_RDONLY | O_DIRECTORY);
    if (descriptor < 0) return errno;
    return close_file<Calls>(descriptor, 0, true);
}

/// Makes a folder and those that it lies in. 0 or an errno.
template <class Calls>
int make_folders(std::string const& path) {
    for (std::size_t at = 0; at != std::string::npos;) {
        at = path.find('/', at + 1);
        auto const part = path.substr(0, at);
        if (Calls::make_folder(part.c_str()) == 0) continue;
        struct stat status {};
        auto const code = errno;
        if (::stat(part.c_str(), &status) != 0) return code;
        if (!S_ISDIR(status.st_mode)) return ENOTDIR;
    }
    return 0;
}

/// Makes a folder in `out` that is empty, in place of what was left there. 0 or an errno.
template <class Calls>
int make_empty(std::string const& out, std::string const& folder) {
    int code = make_folders<Calls>(out);
    if (code == 0) code = remove_all<Calls>(folder);
    if (code == 0 && Calls::make_folder(folder.c_str()) != 0) code = errno;
    return code;
}

/// Gives a folder in `out`, whose files are on the disk, the name `target`, in place of one that has it: at once, or on a file system that
/// cannot exchange names once `remove_old()` has removed that one.
///
/// Errors  file_unwritable; those of remove_old
template <class Calls, class Remove>
[[nodiscard]] Result<> publish_folder(std::string const& out, std::string const& folder, std::string const& target,
                                      Remove const& remove_old) {
    // All names and bytes within the folder are on the disk before it has its name.
    if (auto const code = sync_folder<Calls>(folder); code != 0) return unwritable(folder, code);
    struct stat status {};
    bool const is_there = ::lstat(target.c_str(), &status) == 0;
    if (!is_there || Calls::exchange(folder.c_str(), target.c_str()) != 0) {
        if (auto const removed = is_there ? remove_old() : Result<>{}; !removed) return removed;
        if (Calls::rename(folder.c_str(), target.c_str()) != 0) return unwritable(target, errno);
    }
    if (auto const code = sync_folder<Calls>(out); code != 0) return unwritable(out, code);
    // The one that was there before has that name now.
    if (auto const code = remove_all<Calls>(folder); code != 0) return unwritable(folder, code);
    return {};
}

}  // namespace detail

/// The steps of the checkpoints in a folder of a run, the newest first.
[[nodiscard]] inline std::vector<std::int64_t> list_checkpoints(std::string const& out) {
    std::vector<std::int64_t> steps;
    for (auto const& name : detail::entries_of(out)) {
        struct stat status {};
        bool const is_folder = ::stat((out + "/" + name).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
        if (auto const step = checkpoint_step(name); step && is_folder) steps.push_back(*step);
    }
    std::sort(steps.rbegin(), steps.rend());
    return steps;
}

/// Keeps a run's folder for one process as long as this lives, however that ends: two would remove what the other one writes. A file
/// system without locks keeps nothing.
class RunFolderLock {
public:
    /// Makes the folder where it is missing.
    ///
    /// Errors  file_unwritable, also where another process has the folder
    [[nodiscard]] static Result<RunFolderLock> take(std::string const& out) {
        if (auto const code = detail::make_folders<FileCalls>(out); code != 0) return detail::unwritable(out, code);
        RunFolderLock lock(FileCalls::open(out.c_str(), O_RDONLY | O_DIRECTORY));
        if (lock.descriptor_ < 0) return detail::unwritable(out, errno);
        if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            return Error{ErrorCode::file_unwritable}
                .in(out)
                .because("is written to by another run")
                .fix("wait until it has ended, or give this one a folder of its own");
        return Result<RunFolderLock>(std::move(lock));
    }
    RunFolderLock(RunFolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    RunFolderLock& operator=(RunFolderLock&&) = delete;
    ~RunFolderLock() {
        if (descriptor_ >= 0) (void)FileCalls::close(descriptor_);
    }

private:
    explicit RunFolderLock(int descriptor) : descriptor_(descriptor) {}

    int descriptor_;
};

/// Removes what a save that was ended left behind, before a run begins; no other process writes to the folder then (RunFolderLock).
///
/// Errors  file_unwritable
template <class Calls = FileCalls>
[[nodiscard]] Result<> remove_leftovers(std::string const& out) {
    for (auto const& name : detail::entries_of(out)) {
        if (!name.starts_with(detail::saving_prefix) && !name.starts_with(detail::removed_prefix)) continue;
        auto const path = out + "/" + name;
        if (auto const code = detail::remove_all<Calls>(path); code != 0) return detail::unwritable(path, code);
    }
    return {};
}

/// Removes a checkpoint: its name goes first, so that no half of one has it.
///
/// Errors  file_unwritable
template <class Calls = FileCalls>
[[nodiscard]] Result<> remove_checkpoint(std::string const& out, std::int64_t step) {
    auto const path = out + "/" + checkpoint_name(step);
    auto const aside = out + "/" + std::string(detail::removed_prefix) + std::to_string(step);
    auto code = detail::remove_all<Calls>(aside);
    if (code == 0 && Calls::rename(path.c_str(), aside.c_str()) != 0) code = errno == ENOENT ? 0 : errno;
    if (code == 0) code = detail::remove_all<Calls>(aside);
    if (code != 0) return detail::unwritable(path, code);
    return {};
}

/// Removes the checkpoints that a run no longer needs once the one of `step` is whole: the oldest beyond `keep`, and those of later
/// steps, which another run has left that went further: they would be taken for this run's newest.
///
/// Errors  file_unwritable
template <class Calls = FileCalls>
[[nodiscard]] Result<> prune_checkpoints(std::string const& out, std::int64_t step, std::int64_t keep) {
    std::int64_t kept = 0;
    for (auto const each : list_checkpoints(out)) {
        if (each <= step && ++kept <= keep) continue;
        if (auto const removed = remove_checkpoint<Calls>(out, each); !removed) return removed;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
