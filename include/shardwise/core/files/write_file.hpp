// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/temporaries.hpp>
#include <shardwise/core/result.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

[[nodiscard]] inline Error unwritable(std::string_view path, int code) {
    Error error{ErrorCode::file_unwritable};
    error.in(path);
    switch (code) {
        case ENOENT:
        case ENOTDIR:
            return error.because("the folder does not exist").fix("make it, or write elsewhere");
        case EACCES:
        case EPERM:
            return error.because("may not be written").fix("check the folder's permissions");
        case EROFS:
            return error.because("lies on a disk that is read-only").fix("write elsewhere");
        case ENOSPC:
        case EDQUOT:
            return error.because("the disk is full").fix("free space, or write elsewhere");
        case EISDIR:
            return error.because("is a folder, not a file").fix("name a file");
        case ENAMETOOLONG:
            return error.because("is too long a path");
        case ELOOP:
            return error.because("is a link that leads nowhere");
        default:
            return error.because("cannot be written (errno " + std::to_string(code) + ")");
    }
}

/// Writes all of a text; 0 or the errno of the call that failed.
[[nodiscard]] inline int write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        auto const count = ::write(descriptor, text.data(), text.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno;
        if (count == 0) return ENOSPC;
        text.remove_prefix(static_cast<std::size_t>(count));
    }
    return 0;
}

/// A new file that remove_temporaries leaves alone until both descriptors are closed: one to write to and read from, one that holds the
/// lock; -1 and an errno where there is none, EEXIST for a name that is taken.
struct LockedFile {
    int descriptor = -1;
    int lock = -1;

    [[nodiscard]] static LockedFile create(std::string const& path) {
        LockedFile out;
        out.descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out.descriptor < 0) return out;
        struct stat status {};
        // A disk without locks has none to ask for either.
        bool const is_locked = ::flock(out.descriptor, LOCK_EX) == 0;
        bool const was_removed = is_locked && ::fstat(out.descriptor, &status) == 0 && status.st_nlink == 0;
        out.lock = ::fcntl(out.descriptor, F_DUPFD_CLOEXEC, 0);
        if (!was_removed) return out;
        out.close();
        errno = EEXIST;
        return out;
    }
    /// One in the folder of `target`, whose path becomes `temporary`.
    [[nodiscard]] static LockedFile create_beside(std::string const& target, std::string& temporary) {
        auto const slash = target.rfind('/');
        auto const folder = slash == std::string::npos ? std::string{} : target.substr(0, slash + 1);
        auto const start = folder + temporary_prefix() + std::to_string(::getpid()) + "-";
        constexpr int tries = 100;
        for (int i = 0; i < tries; ++i) {
            auto const path = start + std::to_string(i) + std::string(temporary_suffix);
            auto const file = create(path);
            if (file.descriptor < 0 && errno == EEXIST) continue;
            if (file.descriptor >= 0) temporary = path;
            return file;
        }
        errno = EEXIST;
        return {};
    }
    void close() {
        if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
        if (lock >= 0) ::close(std::exchange(lock, -1));
    }
};

/// Writes the text to a new file at `temporary` and gives it the name `target`; 0 or an errno, and then nothing is left.
[[nodiscard]] inline int write_and_rename(int descriptor, std::string const& temporary, std::string const& target,
                                          std::string_view text) {
    auto code = write_all(descriptor, text);
    // The bytes reach the disk before the name does: after a power failure the old file or the new one is there.
    if (code == 0 && ::fsync(descriptor) != 0 && errno != EINVAL) code = errno;
    if (::close(descriptor) != 0 && code == 0 && errno != EINTR) code = errno;
    if (code == 0 && ::rename(temporary.c_str(), target.c_str()) != 0) code = errno;
    if (code != 0) ::unlink(temporary.c_str());
    return code;
}

/// Writes to what is there and is no regular file: a terminal, a pipe.
[[nodiscard]] inline Result<> write_through(std::string const& path, std::string_view text) {
    int const descriptor = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) return unwritable(path, errno);
    auto code = write_all(descriptor, text);
    if (::close(descriptor) != 0 && code == 0 && errno != EINTR) code = errno;
    if (code != 0) return unwritable(path, code);
    return {};
}

/// The file that a path leads to through links; the path itself where nothing is there.
[[nodiscard]] inline std::string followed(std::string const& path) {
    char* const real = ::realpath(path.c_str(), nullptr);
    if (real == nullptr) return path;
    std::string out = real;
    std::free(real);
    return out;
}

}  // namespace detail

/// Writes a file whole or not at all: beside its place first, then renamed. Whoever reads meanwhile, and whoever looks after
/// a failure or a crash, finds the old content or the new. A link stays one: the file that it leads to is written. A
/// terminal or a pipe (/dev/stdout) is written to as it is. What a process leaves that is killed meanwhile remove_temporaries removes.
///
/// Errors  file_unwritable: the old file is as it was, and nothing else is left behind
[[nodiscard]] inline Result<> write_file(std::string const& path, std::string_view text) {
    if (path.empty() || path.find('\0') != std::string::npos) return detail::unwritable(path, ENOENT);
    struct stat status {};
    bool const is_there = ::stat(path.c_str(), &status) == 0;
    if (!is_there && errno != ENOENT) return detail::unwritable(path, errno);
    if (!is_there && ::lstat(path.c_str(), &status) == 0) return detail::unwritable(path, ELOOP);
    if (is_there && S_ISDIR(status.st_mode)) return detail::unwritable(path, EISDIR);
    if (is_there && !S_ISREG(status.st_mode)) return detail::write_through(path, text);
    // What may not be written is not replaced either, though the folder would allow it.
    if (is_there && ::access(path.c_str(), W_OK) != 0) return detail::unwritable(path, errno);

    auto const target = is_there ? detail::followed(path) : path;
    std::string temporary;
    auto file = detail::LockedFile::create_beside(target, temporary);
    if (file.descriptor < 0) return detail::unwritable(path, errno);
    // Fails where the old file is somebody else's; the new one then has the usual permissions.
    if (is_there) (void)::fchmod(file.descriptor, status.st_mode & 07777);
    auto const code = detail::write_and_rename(std::exchange(file.descriptor, -1), temporary, target, text);
    file.close();
    if (code != 0) return detail::unwritable(path, code);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
