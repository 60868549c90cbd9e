// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/device/nccl_library.hpp>

#include <functional>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// What the fakes of NCCL's interface hold alike: nccl.cpp of this folder and tests/device/fake_nccl.hpp.
struct NcclRules {
    static constexpr int version = 22809;
    static constexpr int internal_error = 3;
    static constexpr int invalid_argument = 4;
    static constexpr int remote_error = 6;

    /// Whether a communicator is opened as we do: by a config of the library's version that does not block.
    [[nodiscard]] static bool accepts(NcclTable::Config const& config) {
        return config.size == sizeof config && config.magic == 0xcafebeefU && config.blocking == 0;
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
