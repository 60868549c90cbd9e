// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/guarded_memory.hpp>
#include <shardwise/core/files/regular_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A part of a regular file as memory, read-only; pages come in when they are touched and the system may take them
/// back, so a large header costs no memory of the process's own.
///
/// Where somebody cuts the file, or its disk fails, the text has zeros; check() tells. Whoever used the text asks it before
/// the result counts.
class MappedFile {
public:
    MappedFile(MappedFile&& other) noexcept
        : base_(std::exchange(other.base_, nullptr)),
          mapped_(std::exchange(other.mapped_, 0)),
          text_(other.text_),
          guard_(std::move(other.guard_)),
          descriptor_(std::exchange(other.descriptor_, -1)),
          size_(other.size_),
          path_(std::move(other.path_)) {}
    MappedFile& operator=(MappedFile&& other) noexcept {
        std::swap(base_, other.base_);
        std::swap(mapped_, other.mapped_);
        std::swap(text_, other.text_);
        std::swap(guard_, other.guard_);
        std::swap(descriptor_, other.descriptor_);
        std::swap(size_, other.size_);
        std::swap(path_, other.path_);
        return *this;
    }
    MappedFile(MappedFile const&) = delete;
    MappedFile& operator=(MappedFile const&) = delete;
    ~MappedFile() {
        guard_ = {};
        if (base_ != nullptr) ::munmap(base_, mapped_);
        if (descriptor_ >= 0) ::close(descriptor_);
    }

    /// Maps `count` bytes at `offset`, cut to what the file has.
    ///
    /// Errors  file_unreadable
    [[nodiscard]] static Result<MappedFile> map(RegularFile const& file, std::uint64_t offset, std::uint64_t count) {
        MappedFile out;
        if (offset >= file.size() || count == 0) return Result<MappedFile>(std::move(out));
        if (count > file.size() - offset) count = file.size() - offset;
        auto const page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
        auto const start = offset / page * page;
        auto const length = static_cast<std::size_t>(count + (offset - start));
        void* const base =
            ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file.descriptor(), static_cast<off_t>(start));
        if (base == MAP_FAILED) return RegularFile::unreadable(file.path(), errno);
        out.base_ = base;
        out.mapped_ = length;
        out.guard_ = GuardedMemory(base, length);
        out.size_ = file.size();
        out.path_ = file.path();
        out.descriptor_ = ::fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0);
        if (out.descriptor_ < 0) return RegularFile::unreadable(file.path(), errno);
        out.text_ = {static_cast<char const*>(base) + (offset - start), static_cast<std::size_t>(count)};
        return Result<MappedFile>(std::move(out));
    }

    [[nodiscard]] std::string_view text() const { return text_; }
    /// Success where all that was read of the text so far was the file's.
    ///
    /// Errors  file_unreadable
    [[nodiscard]] Result<> check() const {
        if (base_ == nullptr) return {};
        if (auto const checked = RegularFile::check_size(descriptor_, size_, path_); !checked) return checked;
        if (!guard_.was_absent()) return {};
        return Error{ErrorCode::file_unreadable}
            .in(path_)
            .because("changed while it was read, or its disk does not give its bytes")
            .fix("try again, or copy the file");
    }

    /// Gives the pages before `position` of the text back to the system; they come in again if they are touched.
    void release_before(std::size_t position) const {
        if (base_ == nullptr || position > text_.size()) return;
        auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        auto const offset = static_cast<std::size_t>(text_.data() - static_cast<char const*>(base_)) + position;
        if (offset >= page) (void)::madvise(base_, offset / page * page, MADV_DONTNEED);
    }

    /// Asks the system to begin to read a part of the text; it may refuse.
    void expect(std::size_t position, std::size_t count) const {
        if (base_ == nullptr || position >= text_.size()) return;
        auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        auto const offset = static_cast<std::size_t>(text_.data() - static_cast<char const*>(base_)) + position;
        auto const begin = offset / page * page;
        auto const end = std::min(offset + count, mapped_);
        if (begin < end) (void)::madvise(static_cast<char*>(base_) + begin, end - begin, MADV_WILLNEED);
    }

private:
    MappedFile() = default;

    void* base_ = nullptr;
    std::size_t mapped_ = 0;
    std::string_view text_;
    GuardedMemory guard_;
    /// For the file's size.
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
    std::string path_;
};

/// Gives the pages of a mapped text back, a few MiB at a time, while the text is read from front to back.
class ReadPages {
public:
    /// `mapped` may be null: nothing is given back.
    explicit ReadPages(MappedFile const* mapped) : mapped_(mapped) {}

    /// Says that `bytes` of the text have been read.
    void release_before(std::size_t bytes) {
        constexpr std::size_t step = std::size_t{4} << 20U;
        if (mapped_ == nullptr || bytes < released_ + step) return;
        mapped_->release_before(bytes);
        released_ = bytes;
    }

private:
    MappedFile const* mapped_;
    std::size_t released_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
