// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Tells whether a file that is opened again is the one that was read: another one, or one that was written to, differs.
struct FileStamp {
    ::dev_t device{};
    ::ino_t number{};
    std::uint64_t size = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;

    friend bool operator==(FileStamp const&, FileStamp const&) = default;
};

/// A regular file that is open for reading. FIFOs, devices, sockets and folders are refused without blocking on them.
class RegularFile {
public:
    RegularFile(RegularFile&& other) noexcept
        : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), stamp_(other.stamp_) {}
    RegularFile& operator=(RegularFile&& other) noexcept {
        std::swap(path_, other.path_);
        std::swap(descriptor_, other.descriptor_);
        std::swap(stamp_, other.stamp_);
        return *this;
    }
    RegularFile(RegularFile const&) = delete;
    RegularFile& operator=(RegularFile const&) = delete;
    ~RegularFile() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }

    /// Opens `path`; errors and path() show `shown` where it is given, for files whose real place tells users nothing.
    ///
    /// Errors  file_not_found, file_unreadable
    [[nodiscard]] static Result<RegularFile> open(std::string const& path, std::string shown = {});

    /// The name to show.
    [[nodiscard]] std::string const& path() const { return path_; }
    [[nodiscard]] int descriptor() const { return descriptor_; }
    /// The size when it was opened.
    ///
    /// Units  bytes
    [[nodiscard]] std::uint64_t size() const { return stamp_.size; }
    /// Which file it is, and when it was last written to before it was opened.
    [[nodiscard]] FileStamp const& stamp() const { return stamp_; }

    /// Reads up to `count` bytes at `offset`; fewer only where the file ends. Safe while others cut the file.
    ///
    /// Errors  file_unreadable
    [[nodiscard]] Result<std::size_t> read(std::uint64_t offset, char* out, std::size_t count) const {
        return read_from(descriptor_, path_, offset, out, count);
    }
    /// The same of a file that somebody else has opened, and that errors show as `shown`.
    [[nodiscard]] static Result<std::size_t> read_from(int descriptor, std::string_view shown, std::uint64_t offset,
                                                       char* out, std::size_t count) {
        std::size_t done = 0;
        while (done < count) {
            auto const got = ::pread(descriptor, out + done, count - done, static_cast<off_t>(offset + done));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return unreadable(shown, errno);
            if (got == 0) break;
            done += static_cast<std::size_t>(got);
        }
        return done;
    }

    /// Reads `count` bytes at `offset`, which the file had when it was opened.
    ///
    /// Errors  file_unreadable, also where the file has become shorter
    [[nodiscard]] Result<> read_all(std::uint64_t offset, char* out, std::size_t count) const {
        auto const got = read(offset, out, count);
        if (!got) return got.error();
        if (*got < count) return cut(path_);
        return {};
    }
    /// Success while the file is as long as when it was opened, or longer. What was read until then was all there.
    ///
    /// Errors  file_unreadable
    [[nodiscard]] Result<> check_size() const { return check_size(descriptor_, size(), path_); }
    /// The same of a descriptor that somebody else holds.
    [[nodiscard]] static Result<> check_size(int descriptor, std::uint64_t size, std::string_view shown) {
        struct stat status {};
        if (::fstat(descriptor, &status) != 0) return unreadable(shown, errno);
        if (static_cast<std::uint64_t>(status.st_size) < size) return cut(shown);
        return {};
    }

    /// The error for a file that somebody else has made shorter.
    [[nodiscard]] static Error cut(std::string_view path) {
        return Error{ErrorCode::file_unreadable}
            .in(path)
            .because("became shorter while it was read")
            .fix("let whoever writes it finish, then try again");
    }
    /// The error for a system call on `path` that failed.
    [[nodiscard]] static Error unreadable(std::string_view path, int code) {
        bool const is_absent = code == ENOENT || code == ENOTDIR;
        Error error{is_absent ? ErrorCode::file_not_found : ErrorCode::file_unreadable};
        error.in(path);
        switch (code) {
            case ENOENT:
            case ENOTDIR:
                error.because("does not exist");
                break;
            case EACCES:
            case EPERM:
                error.because("may not be read").fix("check its permissions");
                break;
            case ELOOP:
                error.because("is a link that leads nowhere");
                break;
            case ENAMETOOLONG:
                error.because("is too long a path");
                break;
            default:
                error.because("cannot be read (errno " + std::to_string(code) + ")");
                break;
        }
        return error;
    }

private:
    RegularFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

    /// Success where the mode is a regular file's.
    static Result<> check_mode(std::string_view path, mode_t mode) {
        if (S_ISREG(mode)) return {};
        Error error{ErrorCode::file_unreadable};
        error.in(path);
        if (S_ISDIR(mode)) return error.because("is a folder, not a file");
        if (S_ISFIFO(mode)) return error.because("is a pipe, not a file");
        if (S_ISCHR(mode) || S_ISBLK(mode)) return error.because("is a device, not a file");
        if (S_ISSOCK(mode)) return error.because("is a socket, not a file");
        return error.because("is not a regular file");
    }

    std::string path_;
    int descriptor_ = -1;
    FileStamp stamp_;
};

inline Result<RegularFile> RegularFile::open(std::string const& path, std::string shown) {
    if (shown.empty()) shown = path;
    if (path.find('\0') != std::string::npos) return unreadable(shown, ENOENT);
    // Looking before opening keeps devices that act on open untouched; looking again keeps swapped files out.
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return unreadable(shown, errno);
    if (auto const checked = check_mode(shown, status.st_mode); !checked) return checked.error();
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) return unreadable(shown, errno);
    RegularFile file(std::move(shown), descriptor);
    if (::fstat(descriptor, &status) != 0) return unreadable(file.path(), errno);
    if (auto const checked = check_mode(file.path(), status.st_mode); !checked) return checked.error();
    file.stamp_ = {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
                   static_cast<std::int64_t>(status.st_mtim.tv_sec), static_cast<std::int64_t>(status.st_mtim.tv_nsec)};
    return Result<RegularFile>(std::move(file));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
