// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Makes a folder that only this user may use, unless it is there: several ranks may ask for it at once.
///
/// Errors  file_unwritable with the system's words; unsafe_path where another user owns or may write what is there
[[nodiscard]] inline Result<> make_own_folder(std::string const& path) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return Error{ErrorCode::file_unwritable}
            .in(path)
            .because(std::strerror(errno))
            .fix("set SHARDWISE_RENDEZVOUS to a folder of this job that all machines see");
    struct stat found {};
    bool const is_own = lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
                        (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    if (is_own) return {};
    return Error{ErrorCode::unsafe_path}
        .in(path)
        .because("is not a folder that only this user may write")
        .fix("remove it");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
