// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/files/write_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/train/checkpoint/file_calls.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Files that exist, of which this process writes ranges, in any order, each byte once; others may write the rest meanwhile.
///
/// With memory to gather them in, whole blocks of long ranges go around the page cache, where the file system takes that: the kernel's
/// copy into its cache is most of what a large checkpoint costs. The page cache has what is short, and the blocks at both ends of a
/// range that it fills in part, so that no page is written both ways.
///
/// Units  bytes
/// Memory  the caller's, memory_bytes of it; without it everything goes through the page cache
template <class Calls>
class RangeFiles {
public:
    /// Of files and memory: a page, and whole blocks of any disk that is read and written by pages.
    static constexpr std::int64_t block = 4096;
    /// What is written at a time. Shorter writes wait for the disk more often, longer ones are no faster.
    ///
    /// Source  bench/results/2026-11-27-checkpoint-direct.md
    static constexpr std::int64_t window_bytes = std::int64_t{1} << 20U;
    /// Memory for one that writes so many bytes in all; none where that is little.
    [[nodiscard]] static constexpr std::int64_t memory_bytes(std::int64_t written) {
        return written < window_bytes ? 0 : window_bytes + block;
    }

    /// `memory` outlives this.
    explicit RangeFiles(Span<std::byte> memory = {}) {
        // Whoever writes beside a range shares no page with it.
        if (static_cast<std::int64_t>(memory.size()) < window_bytes + block || ::sysconf(_SC_PAGESIZE) > block) return;
        auto const address = reinterpret_cast<std::uintptr_t>(memory.data());
        window_ = memory.data() + (block - static_cast<std::int64_t>(address % block)) % block;
    }
    RangeFiles(RangeFiles&& other) noexcept
        : files_(std::exchange(other.files_, {})),
          window_(other.window_),
          file_(other.file_),
          begin_(other.begin_),
          end_(other.end_) {}
    RangeFiles& operator=(RangeFiles&& other) noexcept {
        std::swap(files_, other.files_);
        std::swap(window_, other.window_);
        std::swap(file_, other.file_);
        std::swap(begin_, other.begin_);
        std::swap(end_, other.end_);
        return *this;
    }
    RangeFiles(RangeFiles const&) = delete;
    RangeFiles& operator=(RangeFiles const&) = delete;
    /// What was not finished is not written.
    ~RangeFiles() {
        for (auto const& file : files_) {
            (void)Calls::close(file.descriptor);
            if (file.direct >= 0) (void)Calls::close(file.direct);
        }
    }

    /// Opens another file; errors call it `shown`.
    ///
    /// Errors  file_unwritable
    [[nodiscard]] Result<> open(std::string const& path, std::string shown) {
        auto const descriptor = Calls::open(path.c_str(), O_WRONLY);
        if (descriptor < 0) return unwritable(path, errno);
        files_.push_back({std::move(shown), descriptor, -1});
        if (window_ == nullptr) return {};
        // The file can be written, as the first call has shown: where this one fails, for whatever reason (a file system that has no way
        // around the page cache, too many open files), the page cache has it all.
        files_.back().direct = Calls::open(path.c_str(), O_WRONLY | O_DIRECT);
        return {};
    }
    [[nodiscard]] bool is_open() const { return !files_.empty(); }

    /// Writes bytes at a place of a file, by the order in which files were opened. They may wait in memory until the next write or `finish`.
    ///
    /// Errors  file_unwritable, also for what waited
    [[nodiscard]] Result<> write(std::size_t file, std::string_view bytes, std::int64_t offset) {
        if (files_[file].direct < 0) return write_cached(file, bytes, offset);
        while (!bytes.empty()) {
            if (file != file_ || offset != end_) {
                if (auto const flushed = flush(); !flushed) return flushed;
                file_ = file;
                begin_ = end_ = offset;
            }
            auto const place = end_ - begin_ / block * block;
            auto const some = std::min(static_cast<std::int64_t>(bytes.size()), window_bytes - place);
            std::memcpy(window_ + place, bytes.data(), static_cast<std::size_t>(some));
            bytes.remove_prefix(static_cast<std::size_t>(some));
            end_ = offset += some;
            if (place + some < window_bytes) continue;
            if (auto const flushed = flush(); !flushed) return flushed;
        }
        return {};
    }

    /// Waits until all is on the disk, and closes the files.
    ///
    /// Errors  file_unwritable
    [[nodiscard]] Result<> finish() {
        auto done = flush();
        for (auto& file : files_) {
            // Of the file: what went around the page cache, too.
            int code = close_file<Calls>(file.descriptor, 0, true);
            if (auto const closed = close_direct(file); code == 0) code = closed;
            if (code != 0 && done) done = unwritable(file.shown, code);
        }
        files_.clear();
        return done;
    }

private:
    struct File {
        std::string shown;
        int descriptor = -1;
        /// Around the page cache; -1 where that did not open, or is not taken.
        int direct = -1;
    };

    [[nodiscard]] static int close_direct(File& file) {
        auto const direct = std::exchange(file.direct, -1);
        return direct < 0 || Calls::close(direct) == 0 || errno == EINTR ? 0 : errno;
    }
    [[nodiscard]] Result<> write_cached(std::size_t file, std::string_view bytes, std::int64_t offset) {
        auto const code = write_at<Calls>(files_[file].descriptor, bytes, offset);
        if (code != 0) return unwritable(files_[file].shown, code);
        return {};
    }
    /// Writes whole blocks of the window.
    [[nodiscard]] Result<> write_direct(std::size_t number, std::string_view bytes, std::int64_t offset) {
        auto& file = files_[number];
        std::int64_t count = -1;
        do {
            count = Calls::write(file.direct, bytes.data(), bytes.size(), offset);
        } while (count < 0 && errno == EINTR);
        if (count < 0 && errno != EINVAL && errno != EOPNOTSUPP) return unwritable(file.shown, errno);
        if (count < 0) {
            // The file system had only not said so before.
            if (auto const code = close_direct(file); code != 0) return unwritable(file.shown, code);
            count = 0;
        }
        // The rest of a write that was cut short, which may begin within a block.
        return write_cached(number, bytes.substr(static_cast<std::size_t>(count)), offset + count);
    }
    /// Writes what waits.
    [[nodiscard]] Result<> flush() {
        auto const begin = std::exchange(begin_, end_);
        if (begin == end_) return {};
        auto const base = begin / block * block;
        auto const first = round_up(begin, block);
        auto const last = end_ / block * block;
        auto const of = [&](std::int64_t from, std::int64_t to) {
            return std::string_view(reinterpret_cast<char const*>(window_) + (from - base),
                                    static_cast<std::size_t>(to - from));
        };
        if (files_[file_].direct < 0 || last - first < Calls::min_direct)
            return write_cached(file_, of(begin, end_), begin);
        auto done = write_cached(file_, of(begin, first), begin);
        if (done) done = write_direct(file_, of(first, last), first);
        if (done) done = write_cached(file_, of(last, end_), last);
        return done;
    }

    std::vector<File> files_;
    /// Begins at a block of memory, as what waits in it does in the file.
    std::byte* window_ = nullptr;
    /// What waits: bytes begin_ to before end_ of one file.
    std::size_t file_ = 0;
    std::int64_t begin_ = 0;
    std::int64_t end_ = 0;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
