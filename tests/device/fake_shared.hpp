// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/core/result.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shardwise::testing {

/// Memory of fake devices that several processes see: a file without a name, which each maps, as drivers keep such memory until the
/// last process has closed it. Mapped again by whoever knows the process that made it and its descriptor there.
class FakeShared {
public:
    [[nodiscard]] Result<void*> make(std::size_t bytes, bool is_mapped = false) {
        auto const descriptor = memfd_create("shardwise-fake-device", MFD_CLOEXEC);
        if (descriptor < 0) return failure("memfd_create");
        if (ftruncate(descriptor, static_cast<off_t>(mapped(bytes))) != 0) return failure("ftruncate");
        auto* const memory = map(descriptor, bytes);
        if (memory == MAP_FAILED) return failure("mmap");
        std::memset(memory, 0xA5, bytes);
        std::lock_guard const lock(mutex_);
        regions_[memory] = {bytes, descriptor, is_mapped};
        return memory;
    }
    /// False for other memory. What another process has open still is not to be released: that is counted.
    bool release(void* memory, bool is_mapped = false) {
        std::lock_guard const lock(mutex_);
        auto const found = regions_.find(memory);
        if (found == regions_.end() || found->second.descriptor < 0 || found->second.is_mapped != is_mapped)
            return false;
        if (openers(memory, found->second.bytes).load() > 0) ++early_releases_;
        munmap(memory, mapped(found->second.bytes));
        close(found->second.descriptor);
        regions_.erase(found);
        return true;
    }
    [[nodiscard]] Result<detail::SharedHandle> export_handle(void* memory) {
        std::lock_guard const lock(mutex_);
        auto const found = regions_.find(memory);
        if (found == regions_.end() || found->second.is_mapped)
            return Error{ErrorCode::backend_failure}.in("export_shared").because("is no shared memory");
        detail::SharedHandle handle;
        Words const words{getpid(), found->second.descriptor, found->second.bytes};
        std::memcpy(handle.bytes.data(), &words, sizeof words);
        return handle;
    }
    [[nodiscard]] Result<void*> open(detail::SharedHandle const& handle) {
        Words words{};
        std::memcpy(&words, handle.bytes.data(), sizeof words);
        // As CUDA has it.
        if (words.process == getpid())
            return Error{ErrorCode::backend_failure}.in("open_shared").because("is memory of this process");
        auto const path = "/proc/" + std::to_string(words.process) + "/fd/" + std::to_string(words.descriptor);
        auto const descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        if (descriptor < 0) return failure("open_shared");
        auto* const memory = map(descriptor, words.bytes);
        ::close(descriptor);
        if (memory == MAP_FAILED) return failure("mmap");
        openers(memory, words.bytes).fetch_add(1);
        std::lock_guard const lock(mutex_);
        regions_[memory] = {words.bytes, -1, false};
        return memory;
    }
    /// The same by a descriptor, which is the caller's.
    [[nodiscard]] Result<int> export_descriptor(void* memory) {
        std::lock_guard const lock(mutex_);
        auto const found = regions_.find(memory);
        if (found == regions_.end() || found->second.descriptor < 0 || !found->second.is_mapped)
            return Error{ErrorCode::backend_failure}.in("export_mapped").because("is no memory of this process");
        auto const copy = ::fcntl(found->second.descriptor, F_DUPFD_CLOEXEC, 0);
        if (copy < 0) return failure("export_mapped");
        return copy;
    }
    [[nodiscard]] Result<void*> open_descriptor(int descriptor, std::size_t bytes) {
        struct stat facts {};
        if (::fstat(descriptor, &facts) != 0) return failure("open_mapped");
        if (facts.st_size != static_cast<off_t>(mapped(bytes)))
            return Error{ErrorCode::backend_failure}.in("open_mapped").because("is memory of another size");
        auto* const memory = map(descriptor, bytes);
        if (memory == MAP_FAILED) return failure("mmap");
        openers(memory, bytes).fetch_add(1);
        std::lock_guard const lock(mutex_);
        regions_[memory] = {bytes, -1, true};
        return memory;
    }
    void close_opened(void* memory, bool is_mapped = false) {
        std::lock_guard const lock(mutex_);
        auto const found = regions_.find(memory);
        if (found == regions_.end() || found->second.is_mapped != is_mapped) return;
        openers(memory, found->second.bytes).fetch_sub(1);
        munmap(memory, mapped(found->second.bytes));
        regions_.erase(found);
    }
    [[nodiscard]] bool is_empty() {
        std::lock_guard const lock(mutex_);
        return regions_.empty();
    }
    /// How often memory went that another process had open.
    [[nodiscard]] int early_releases() const { return early_releases_; }

private:
    struct Words {
        std::int32_t process;
        std::int32_t descriptor;
        std::size_t bytes;
    };
    struct Region {
        std::size_t bytes;
        /// -1: of another process.
        int descriptor;
        /// By descriptors, not by handles.
        bool is_mapped;
    };
    static constexpr std::size_t page = 4096;

    /// A page more, with the number of processes that have it open.
    [[nodiscard]] static std::size_t mapped(std::size_t bytes) { return (bytes + page - 1) / page * page + page; }
    [[nodiscard]] static std::atomic<int>& openers(void* memory, std::size_t bytes) {
        return *reinterpret_cast<std::atomic<int>*>(static_cast<std::byte*>(memory) + mapped(bytes) - page);
    }
    [[nodiscard]] static void* map(int descriptor, std::size_t bytes) {
        return mmap(nullptr, mapped(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    [[nodiscard]] static Error failure(char const* call) {
        return Error{ErrorCode::backend_failure}.in(call).because(std::strerror(errno)).got(errno);
    }

    std::mutex mutex_;
    std::map<void*, Region> regions_;
    int early_releases_ = 0;
};

}  // namespace shardwise::testing
