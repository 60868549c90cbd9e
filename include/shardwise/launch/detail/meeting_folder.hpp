// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A folder in which ranks meet. The rank that made it removes it, with the files of all ranks, as soon as they have met or
/// it gives up.
class MeetingFolder {
public:
    /// Makes the folder, unless it is there: several ranks may ask for it at once. `is_ours` demands that only this user
    /// may write to one that is there.
    ///
    /// Errors  file_unwritable with the system's words; unsafe_path where another user owns or may write what is there
    [[nodiscard]] static Result<MeetingFolder> open(std::string const& path, bool is_ours) {
        bool const is_made = mkdir(path.c_str(), 0700) == 0;
        if (!is_made && errno != EEXIST) {
            return Error{ErrorCode::file_unwritable}
                .in(path)
                .because(std::strerror(errno))
                .fix("set SHARDWISE_RENDEZVOUS to a folder of this job that all machines see");
        }
        struct stat found {};
        bool const is_own = !is_ours || (lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
                                         found.st_uid == geteuid() && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0);
        if (!is_own) {
            return Error{ErrorCode::unsafe_path}
                .in(path)
                .because("is not a folder that only this user may write")
                .fix("remove it");
        }
        return MeetingFolder(is_made ? path : std::string());
    }

    MeetingFolder(MeetingFolder&& other) noexcept : made_(std::exchange(other.made_, {})) {}
    MeetingFolder& operator=(MeetingFolder&&) = delete;
    MeetingFolder(MeetingFolder const&) = delete;
    MeetingFolder& operator=(MeetingFolder const&) = delete;
    ~MeetingFolder() { remove(); }

private:
    explicit MeetingFolder(std::string made) : made_(std::move(made)) {}

    /// There are no folders in it. What cannot be removed stays.
    void remove() const {
        if (made_.empty()) return;
        if (auto* const folder = opendir(made_.c_str())) {
            while (auto const* const entry = readdir(folder)) {
                std::string_view const name(entry->d_name);
                if (name != "." && name != "..") unlinkat(dirfd(folder), entry->d_name, 0);
            }
            closedir(folder);
        }
        rmdir(made_.c_str());
    }

    /// Empty where another rank, or the user, made it.
    std::string made_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
