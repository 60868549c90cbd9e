// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// Memory of fake devices: each allocation lies between pages that nothing may touch, and ends at the second of them but for less than
/// its alignment, so that what reads or writes past its ends ends the program.
class FakeMemory {
public:
    /// Fresh memory of a device is not clean. Null: there is none.
    [[nodiscard]] void* allocate(std::size_t bytes) {
        auto const whole = rounded(bytes);
        auto* const pages =
            mmap(nullptr, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED) return nullptr;
        auto* const first = static_cast<std::byte*>(pages) + page;
        auto* const memory = first + whole - used(bytes);
        if (whole > 0 && mprotect(first, whole, PROT_READ | PROT_WRITE) != 0) return nullptr;
        std::memset(first, poison, whole);
        std::lock_guard const lock(mutex_);
        regions_[memory] = bytes;
        total_ += bytes;
        return memory;
    }
    /// What was written beside the memory, where that could be, is the program's end.
    void release(void* address) {
        std::lock_guard const lock(mutex_);
        auto const found = regions_.find(static_cast<std::byte*>(address));
        if (found == regions_.end()) fail("memory is released that nobody has");
        auto* const memory = found->first;
        auto const bytes = found->second;
        auto* const first = memory + used(bytes) - rounded(bytes);
        for (auto const* at = first; at < memory + used(bytes); ++at) {
            if (at == memory) at += bytes;
            if (at < memory + used(bytes) && *at != std::byte{poison}) fail("something was written beside memory");
        }
        munmap(first - page, rounded(bytes) + 2 * page);
        total_ -= bytes;
        regions_.erase(found);
    }

    /// Nothing is allocated or released while this is held.
    [[nodiscard]] std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
    /// All that is allocated, in bytes; while it is held.
    [[nodiscard]] std::size_t total() const { return total_; }
    using Contents = std::vector<std::vector<std::byte>>;
    [[nodiscard]] Contents contents() const {
        Contents all;
        for (auto const& [memory, bytes] : regions_) all.emplace_back(memory, memory + bytes);
        return all;
    }
    void put_back(Contents const& all) {
        auto from = all.begin();
        for (auto const& [memory, bytes] : regions_) {
            if (bytes > 0) std::memcpy(memory, from->data(), bytes);
            ++from;
        }
    }

private:
    static constexpr unsigned char poison = 0xA5;
    static constexpr std::size_t page = 4096;
    static constexpr std::size_t alignment = 256;

    [[nodiscard]] static std::size_t used(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
    [[nodiscard]] static std::size_t rounded(std::size_t bytes) { return (bytes + page - 1) / page * page; }
    [[noreturn]] static void fail(char const* what) {
        std::fprintf(stderr, "fake device: %s\n", what);
        std::abort();
    }

    std::mutex mutex_;
    std::map<std::byte*, std::size_t> regions_;
    std::size_t total_ = 0;
};

}  // namespace shardwise::testing
