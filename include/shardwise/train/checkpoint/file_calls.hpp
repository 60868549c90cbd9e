// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The system calls that write checkpoints. Each gives -1 and errno where it fails. Writers are templates on this struct, so that a
/// test can stand at every call: count it, let it fail, end the process there.
struct FileCalls {
    /// Whole blocks of a range that are worth a wait for the disk: shorter ones go through the page cache.
    ///
    /// Units   bytes
    /// Source  bench/results/2026-11-27-checkpoint-direct.md
    static constexpr std::int64_t min_direct = std::int64_t{1} << 17U;

    static int make_folder(char const* path) { return ::mkdir(path, 0777); }
    /// A file or a folder, by the flags of open(2).
    static int open(char const* path, int flags) { return ::open(path, flags | O_CLOEXEC | O_NOCTTY, 0666); }
    /// Makes a file so long, and takes the room for it where the file system can.
    static int allocate(int descriptor, std::int64_t bytes) {
        if (bytes == 0) return 0;
        int done = -1;
        do {
            done = ::fallocate(descriptor, 0, 0, static_cast<off_t>(bytes));
        } while (done != 0 && errno == EINTR);
        if (done == 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) return done;
        return ::ftruncate(descriptor, static_cast<off_t>(bytes));
    }
    static std::int64_t write(int descriptor, char const* data, std::size_t count, std::int64_t offset) {
        return ::pwrite(descriptor, data, count, static_cast<off_t>(offset));
    }
    static int sync(int descriptor) { return ::fsync(descriptor); }
    static int close(int descriptor) { return ::close(descriptor); }
    static int rename(char const* from, char const* to) { return ::rename(from, to); }
    /// Two names for each other, at once.
    static int exchange(char const* one, char const* other) {
        constexpr unsigned swaps_names = 2;  // RENAME_EXCHANGE of linux/fs.h
        return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, swaps_names));
    }
    static int remove_file(char const* path) { return ::unlink(path); }
    static int remove_folder(char const* path) { return ::rmdir(path); }
};

namespace detail {

/// Writes all bytes at a place of a file; 0 or an errno.
template <class Calls>
[[nodiscard]] int write_at(int descriptor, std::string_view bytes, std::int64_t offset) {
    while (!bytes.empty()) {
        auto const count = Calls::write(descriptor, bytes.data(), bytes.size(), offset);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno;
        if (count == 0) return ENOSPC;
        bytes.remove_prefix(static_cast<std::size_t>(count));
        offset += count;
    }
    return 0;
}

/// Closes a file, synced before if `is_synced` and writing succeeded (`code` 0). Returns the first errno, else 0. EINVAL of sync is no
/// error: some file systems cannot sync folders.
template <class Calls>
[[nodiscard]] int close_file(int descriptor, int code, bool is_synced) {
    if (code == 0 && is_synced && Calls::sync(descriptor) != 0 && errno != EINVAL) code = errno;
    if (Calls::close(descriptor) != 0 && code == 0 && errno != EINTR) code = errno;
    return code;
}

/// Makes a file of `bytes` bytes that begins with `text`; 0 or an errno.
template <class Calls>
[[nodiscard]] int write_new(std::string const& path, std::string_view text, std::int64_t bytes, bool is_synced) {
    auto const descriptor = Calls::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL);
    if (descriptor < 0) return errno;
    int code = Calls::allocate(descriptor, bytes) == 0 ? 0 : errno;
    if (code == 0) code = write_at<Calls>(descriptor, text, 0);
    return close_file<Calls>(descriptor, code, is_synced);
}
template <class Calls>
[[nodiscard]] int write_new(std::string const& path, std::string_view text) {
    return write_new<Calls>(path, text, static_cast<std::int64_t>(text.size()), true);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
