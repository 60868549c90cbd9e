// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/train/checkpoint/file_calls.hpp>

#include "every_call.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <unistd.h>

namespace shardwise::testing {

/// The calls of a rank that saves beside training. One of them waits until training comes to a phase, which then waits for it.
struct PhasedCalls : EveryCall<PhasedCalls> {
    enum class Fault { none, killed_before, killed_after, refused, cut };

    inline static Fault fault = Fault::none;
    inline static int faulty = 0;
    inline static int code = 0;
    inline static int count = 0;
    /// Whether the one is about the bytes of a file.
    inline static bool is_of_bytes = false;
    inline static std::atomic<bool> is_waiting{false};
    inline static std::atomic<bool> has_come{false};
    inline static std::atomic<bool> is_done{false};
    inline static std::atomic<bool> is_over{false};
    inline static std::atomic<int>* met = nullptr;

    static void reset() {
        fault = Fault::none;
        faulty = count = 0;
        is_waiting = has_come = is_done = is_over = false;
    }
    /// Of training, at the phase.
    static void meet() {
        if (faulty == 0 || is_done) return;
        auto const deadline = Deadline::after(std::chrono::milliseconds(100));
        // It may come soon.
        while (!is_waiting && !deadline.has_passed()) std::this_thread::yield();
        if (!is_waiting) return;
        has_come = true;
        while (!is_done) std::this_thread::yield();
    }
    [[nodiscard]] static bool is_the_one(bool has_bytes) {
        if (++count != faulty) return false;
        is_of_bytes = has_bytes;
        is_waiting = true;
        while (!has_come && !is_over) std::this_thread::yield();
        if (has_come) ++*met;
        return true;
    }
    template <class Call>
    static auto make(Call call, bool has_bytes = false) -> decltype(call()) {
        if (!is_the_one(has_bytes)) return call();
        if (fault == Fault::refused) return is_done = true, errno = code, -1;
        if (fault == Fault::killed_before) (void)::kill(::getpid(), SIGKILL);
        auto const done = call();
        if (fault == Fault::killed_after) (void)::kill(::getpid(), SIGKILL);
        is_done = true;
        return done;
    }

    static int allocate(int descriptor, std::int64_t bytes) {
        return make([&] { return FileCalls::allocate(descriptor, bytes); }, true);
    }
    static std::int64_t write(int descriptor, char const* data, std::size_t size, std::int64_t offset) {
        bool const is_cut = count + 1 == faulty && (fault == Fault::cut || fault == Fault::killed_after);
        auto const some = is_cut ? (size + 1) / 2 : size;
        return make([&] { return FileCalls::write(descriptor, data, some, offset); }, true);
    }
};

}  // namespace shardwise::testing
