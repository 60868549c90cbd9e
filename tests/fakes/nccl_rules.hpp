// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/device/nccl_library.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// What the fakes of NCCL's interface hold alike: nccl.cpp of this folder and tests/device/fake_nccl.hpp.
struct NcclRules {
    static constexpr int version = 22809;
    static constexpr int internal_error = 3;
    static constexpr int invalid_argument = 4;
    static constexpr int invalid_usage = 5;
    static constexpr int remote_error = 6;

    /// Whether a communicator is opened as we do: by a config of the library's version that does not block.
    [[nodiscard]] static bool accepts(NcclTable::Config const& config) {
        return config.size == sizeof config && config.magic == 0xcafebeefU && config.blocking == 0;
    }
};

/// What a communicator knows of a library's memory.
struct NcclRange {
    std::byte const* begin;
    std::size_t bytes;
    bool is_window;

    [[nodiscard]] bool has(void const* at) const {
        auto const* const byte = static_cast<std::byte const*>(at);
        return byte >= begin && byte < begin + bytes;
    }
};

/// A library's memory: what is registered lies in it, and is not released before it is not.
class NcclHeap {
public:
    [[nodiscard]] void* allocate(std::size_t bytes) {
        auto* const memory = static_cast<std::byte*>(::operator new(bytes, page));
        // Memory of a device is not clean.
        std::memset(memory, 0xA5, bytes);
        std::lock_guard const lock(mutex_);
        memory_[memory] = {bytes, 0};
        return memory;
    }
    [[nodiscard]] bool release(void* memory) {
        std::lock_guard const lock(mutex_);
        auto const found = memory_.find(static_cast<std::byte*>(memory));
        if (found == memory_.end() || found->second.known > 0) return false;
        memory_.erase(found);
        ::operator delete(memory, page);
        return true;
    }
    /// Null where it is not all memory of this.
    [[nodiscard]] NcclRange* add(void const* begin, std::size_t bytes, bool is_window) {
        auto const* const at = static_cast<std::byte const*>(begin);
        std::lock_guard const lock(mutex_);
        auto* const block = find(at);
        bool const fits = block != nullptr && bytes > 0 && at + bytes <= block->first + block->second.bytes;
        if (!fits || (is_window && reinterpret_cast<std::uintptr_t>(at) % 4096 != 0)) return nullptr;
        ++block->second.known;
        return new NcclRange{at, bytes, is_window};
    }
    void remove(NcclRange* range) {
        std::lock_guard const lock(mutex_);
        --find(range->begin)->second.known;
        delete range;
    }
    [[nodiscard]] std::size_t blocks() {
        std::lock_guard const lock(mutex_);
        return memory_.size();
    }

    /// Whether a communicator knows of any of it.
    [[nodiscard]] bool is_known() {
        std::lock_guard const lock(mutex_);
        return std::any_of(memory_.begin(), memory_.end(), [](auto const& block) { return block.second.known > 0; });
    }

private:
    struct Block {
        std::size_t bytes;
        int known;
    };
    static constexpr std::align_val_t page{4096};

    [[nodiscard]] std::pair<std::byte* const, Block>* find(std::byte const* at) {
        for (auto& block : memory_) {
            if (at >= block.first && at < block.first + block.second.bytes) return &block;
        }
        return nullptr;
    }

    std::mutex mutex_;
    std::map<std::byte*, Block> memory_;
};

/// What one communicator knows.
struct NcclKnown {
    std::vector<NcclRange*> ranges;
    /// A window that other ranks have not asked for yet, and where it is to be told.
    NcclRange* asked = nullptr;
    NcclTable::Window* to = nullptr;

    /// False for what it does not know.
    [[nodiscard]] bool remove(NcclHeap& heap, void* range) {
        auto const found = std::find(ranges.begin(), ranges.end(), range);
        if (found == ranges.end()) return false;
        heap.remove(*found);
        ranges.erase(found);
        return true;
    }
    void clear(NcclHeap& heap) {
        for (auto* const range : ranges) heap.remove(range);
        ranges.clear();
    }
    /// Where in a window something lies; -1: in none.
    [[nodiscard]] std::int64_t offset(void const* at) const {
        for (auto const* const range : ranges) {
            if (range->is_window && range->has(at)) return static_cast<std::byte const*>(at) - range->begin;
        }
        return -1;
    }
};

/// A rank's place in its part of a split: those of its color, by their keys.
struct NcclPart {
    int color = 0;
    int key = 0;
    int rank = 0;
    int ranks = 0;

    void meet(int other_color, int other_key) {
        if (other_color != color) return;
        ++ranks;
        if (other_key < key) ++rank;
    }
};

/// What a thread has called: parts of a group of calls run after it has ended, sends before receives, as a device does both at once.
class NcclCalls {
public:
    using Task = std::function<void()>;

    /// `put(stream, task)` puts a task into a stream.
    template <class Put>
    void add(void* stream, Task task, bool is_send, Put const& put) {
        (is_send ? sends_ : receives_).emplace_back(stream, std::move(task));
        if (depth_ == 0) flush(put);
    }
    void begin_group() { ++depth_; }
    template <class Put>
    void end_group(Put const& put) {
        if (--depth_ == 0) flush(put);
    }
    static NcclCalls& of_thread() {
        static thread_local NcclCalls calls;
        return calls;
    }

private:
    template <class Put>
    void flush(Put const& put) {
        for (auto* const list : {&sends_, &receives_}) {
            for (auto& [stream, task] : *list) put(stream, std::move(task));
            list->clear();
        }
    }

    int depth_ = 0;
    std::vector<std::pair<void*, Task>> sends_;
    std::vector<std::pair<void*, Task>> receives_;
};

}  // namespace shardwise::testing
