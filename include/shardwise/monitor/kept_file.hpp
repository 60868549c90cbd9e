// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A file of the kernel's that stays open and is read again and again from its beginning: a third of the cost of opening it
/// each time, and no allocation. For files that the kernel gives whole in one read, as it does those of one record.
class KeptFile {
public:
    KeptFile() = default;
    /// Opens it; `problem()` says why it is not open.
    explicit KeptFile(std::string path) : path_(std::move(path)) {
        descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        problem_ = descriptor_ < 0 ? errno : 0;
        struct stat status {};
        if (descriptor_ >= 0 && (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))) {
            ::close(std::exchange(descriptor_, -1));
            problem_ = ENOENT;
        }
    }
    KeptFile(KeptFile&& other) noexcept
        : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), problem_(other.problem_) {}
    KeptFile& operator=(KeptFile&& other) noexcept {
        std::swap(path_, other.path_);
        std::swap(descriptor_, other.descriptor_);
        std::swap(problem_, other.problem_);
        return *this;
    }
    KeptFile(KeptFile const&) = delete;
    KeptFile& operator=(KeptFile const&) = delete;
    ~KeptFile() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }

    [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
    /// The errno of open or of the last read; 0 where all is well.
    [[nodiscard]] int problem() const { return problem_; }
    [[nodiscard]] std::string const& path() const { return path_; }

    /// The beginning of the file, as much as the buffer holds; nothing where it cannot be read.
    [[nodiscard]] std::optional<std::string_view> read(std::span<char> buffer) {
        if (descriptor_ < 0) return std::nullopt;
        std::size_t done = 0;
        while (done < buffer.size()) {
            auto const got = ::pread(descriptor_, buffer.data() + done, buffer.size() - done, static_cast<off_t>(done));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) {
                problem_ = errno;
                return std::nullopt;
            }
            if (got == 0) break;
            done += static_cast<std::size_t>(got);
            // The kernel makes these files anew for every read, also for one that would only find their end: they come whole.
            if (buffer[done - 1] == '\n') break;
        }
        problem_ = 0;
        return std::string_view{buffer.data(), done};
    }
    /// The number that it holds; nothing where it holds none.
    [[nodiscard]] std::optional<std::int64_t> integer() {
        char digits[64];
        auto const text = read(digits);
        if (!text) return std::nullopt;
        std::int64_t number = 0;
        auto const got = std::from_chars(text->data(), text->data() + text->size(), number);
        if (got.ec != std::errc{}) return std::nullopt;
        return number;
    }

private:
    std::string path_;
    int descriptor_ = -1;
    int problem_ = ENOENT;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
