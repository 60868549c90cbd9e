// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Takes the pages of a part of a mapped file out of this process's memory: FileMemory::drop. Never of other memory, which would be lost.
inline void drop_pages(Span<std::byte const> bytes) {
    auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    auto const at = reinterpret_cast<std::uintptr_t>(bytes.data());
    auto const first = at / page * page;
    if (!bytes.empty()) (void)madvise(reinterpret_cast<void*>(first), bytes.size() + (at - first), MADV_DONTNEED);
}

/// What an optimizer's state lies in, or weights, all zeros at first: memory of a context, or a mapped file of a folder, which takes none of it. The
/// file has no name from the beginning: it goes with this process, however that ends.
class FileMemory {
public:
    /// An empty folder: memory.
    ///
    /// Errors  out_of_memory; file_unwritable with the system's words, also for a disk that has less free
    [[nodiscard]] static Result<FileMemory> allocate(HostContext& context, std::int64_t bytes,
                                                     std::string const& folder) {
        FileMemory out;
        out.size_ = bytes;
        if (folder.empty()) {
            auto memory = Buffer<std::byte, Host>::allocate(context, bytes);
            if (!memory) return memory.error();
            out.memory_ = std::move(*memory);
            std::fill_n(out.memory_.data(), out.memory_.size(), std::byte{0});
            return Result<FileMemory>(std::move(out));
        }
        if (bytes == 0) return Result<FileMemory>(std::move(out));
        auto path = folder + "/.offload-XXXXXX";
        auto const file = mkostemp(path.data(), O_CLOEXEC);
        if (file < 0) return unwritable(folder, errno);
        (void)unlink(path.c_str());
        // The space is taken here: a disk that is full later would end the process at a store.
        auto code = posix_fallocate(file, 0, static_cast<off_t>(bytes));
        auto* const mapped =
            code != 0 ? MAP_FAILED
                      : ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (code == 0 && mapped == MAP_FAILED) code = errno;
        (void)close(file);
        if (code != 0) return unwritable(folder, code);
        out.mapped_ = static_cast<std::byte*>(mapped);
        return Result<FileMemory>(std::move(out));
    }

    FileMemory() = default;
    FileMemory(FileMemory&& other) noexcept
        : memory_(std::move(other.memory_)),
          mapped_(std::exchange(other.mapped_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    FileMemory& operator=(FileMemory&& other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(mapped_, other.mapped_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~FileMemory() {
        if (mapped_ != nullptr) (void)munmap(mapped_, static_cast<std::size_t>(size_));
    }

    [[nodiscard]] std::byte* data() { return mapped_ != nullptr ? mapped_ : memory_.data(); }
    [[nodiscard]] std::byte const* data() const { return mapped_ != nullptr ? mapped_ : memory_.data(); }
    [[nodiscard]] bool is_mapped() const { return mapped_ != nullptr; }

    /// Has bytes of a file read before they are touched, which goes on beside the caller; and gives those that are done with back to the
    /// system, which writes them. Of memory neither does anything.
    void fetch(std::int64_t begin, std::int64_t bytes) { advise(begin, bytes, MADV_WILLNEED); }
    void release([[maybe_unused]] std::int64_t begin, [[maybe_unused]] std::int64_t bytes) {
#ifdef MADV_PAGEOUT
        advise(begin, bytes, MADV_PAGEOUT);
#endif
    }

    /// Takes all pages of a file out of this process's memory, whatever was written to them: they are the system's, which keeps them for
    /// as long as it has memory that nobody asks for, and are mapped again where they are touched. Of memory it does nothing.
    void drop() const {
        if (mapped_ != nullptr) (void)madvise(mapped_, static_cast<std::size_t>(size_), MADV_DONTNEED);
    }

private:
    [[nodiscard]] static Error unwritable(std::string_view folder, int code) {
        return Error{ErrorCode::file_unwritable}
            .in(folder)
            .because("has no file for what is offloaded: " + std::string(std::strerror(code)))
            .fix("free space there, or keep it in memory");
    }
    void advise(std::int64_t begin, std::int64_t bytes, int advice) {
        if (mapped_ == nullptr || bytes <= 0) return;
        auto const page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
        auto const first = begin / page * page;
        // What cannot be advised is read when it is touched.
        (void)madvise(mapped_ + first, static_cast<std::size_t>(begin + bytes - first), advice);
    }

    Buffer<std::byte, Host> memory_;
    std::byte* mapped_ = nullptr;
    std::int64_t size_ = 0;
};

/// Values in it.
template <class T>
class FileValues {
public:
    /// Errors  as FileMemory
    [[nodiscard]] static Result<FileValues> allocate(HostContext& context, std::int64_t count,
                                                     std::string const& folder = {}) {
        auto const bytes = checked_multiply(count, static_cast<std::int64_t>(sizeof(T)));
        if (!bytes)
            return Error{ErrorCode::size_overflow}
                .in("values")
                .because("have more bytes than 63 bits count")
                .got(count);
        auto memory = FileMemory::allocate(context, *bytes, folder);
        if (!memory) return memory.error();
        FileValues out;
        out.memory_ = std::move(*memory);
        out.size_ = count;
        return Result<FileValues>(std::move(out));
    }

    [[nodiscard]] T* data() { return reinterpret_cast<T*>(memory_.data()); }
    [[nodiscard]] T const* data() const { return reinterpret_cast<T const*>(memory_.data()); }
    [[nodiscard]] std::int64_t size() const { return size_; }
    [[nodiscard]] bool is_mapped() const { return memory_.is_mapped(); }
    /// As FileMemory's.
    void drop() const { memory_.drop(); }

private:
    FileMemory memory_;
    std::int64_t size_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
