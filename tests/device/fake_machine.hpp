// SPDX-License-Identifier: Apache-2.0
#pragma once

// A machine with devices as the fake vendor (fake_vendor.hpp) has it: what it counts, and how its streams, graphs and events work.

#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>

#include "compared_orders.hpp"
#include "fake_memory.hpp"
#include "fake_shared.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

// How wide the devices' warps are. 16, narrower than launchers count by, as AMD's are of one generation: no vendor's warps are that
// narrow, and a kernel that counts on 32 or 64 goes wrong here. Programs of their own have 32 and 64.
#if !defined(SHARDWISE_TEST_WARPS)
#define SHARDWISE_TEST_WARPS 16
#endif

namespace shardwise::testing {

/// A machine with devices that are this process's memory and threads. It counts what is alive, and fails where a test says.
struct FakeMachine {
    std::int32_t devices = 2;
    std::int32_t warp_size = SHARDWISE_TEST_WARPS;
    std::int32_t multiprocessors = 8;
    std::string processor = "fake16";
    bool has_matrix_unit = true;
    /// Whether the program's kernels were compiled for the devices.
    bool has_code = true;
    /// Which of the machine's devices this process's first one is: a process may see a few of them.
    std::int32_t first_device = 0;
    /// Whether kernels of several processes run at once on a device.
    bool runs_processes_at_once = false;
    /// Which kernels the program was linked with, as SHARDWISE_KERNELS lists them.
    std::string_view kernels = "all";
    FakeShared shared;
    FakeMemory own;
    ComparedOrders orders;
    /// What a device says is free, whatever was taken.
    std::atomic<std::int64_t> free_bytes{1234};
    std::atomic<int> memory{0};
    std::atomic<int> pinned{0};
    std::atomic<int> streams{0};
    std::atomic<int> events{0};
    std::atomic<int> graphs{0};
    /// Of the library of products (fake_lt.hpp): handles, descriptors and the like.
    std::atomic<int> lt_objects{0};
    /// Of so many rows it has no algorithm.
    std::atomic<std::int64_t> rows_without_algorithm{-1};
    std::atomic<int> products_with_workspace{0};

    /// The call of that name fails, after it has succeeded `after` times.
    void fail(std::string call, int after = 0) {
        std::lock_guard const lock(mutex_);
        failing_ = std::move(call);
        after_ = after;
    }
    void mend() {
        fail("");
        std::lock_guard const lock(mutex_);
        refused_.clear();
    }
    /// The call of that name fails from now on, as one that the vendor, or who runs the program, does not allow.
    void refuse(std::string call) {
        std::lock_guard const lock(mutex_);
        refused_.insert(std::move(call));
    }
    /// The so many-th call from now on fails, whichever it is.
    void fail_call(int number) {
        std::lock_guard const lock(mutex_);
        calls_to_failure_ = number;
        failed_.clear();
    }
    /// The call that failed since; empty: none.
    [[nodiscard]] std::string failed() {
        std::lock_guard const lock(mutex_);
        return failed_;
    }
    /// The process ends as if it was killed, at its so many-th call of the vendor from now on.
    void die_at_call(int number) {
        std::lock_guard const lock(mutex_);
        calls_to_live_ = number;
    }

    /// The same at its first call of that name.
    void die_at(std::string call) {
        std::lock_guard const lock(mutex_);
        last_call_ = std::move(call);
    }

    /// From now on a kernel's first launch on a device, and an allocation, wait until all that was put into the device's streams is done, and
    /// keep every other launch from going on meanwhile: what a driver may do that loads code when it is first called.
    void load_lazily(bool does) {
        std::lock_guard const lock(driver_);
        loads_lazily_ = does;
        loaded_.clear();
    }
    /// Held during a launch.
    [[nodiscard]] std::unique_lock<std::mutex> drive(std::int32_t device, void const* kernel) {
        std::unique_lock lock(driver_);
        if (loads_lazily_ && (kernel == nullptr || loaded_.insert({device, kernel}).second)) {
            while (pending_[static_cast<std::size_t>(device)] > 0) std::this_thread::yield();
        }
        return lock;
    }
    /// From now on a kernel begins when the one before it has ended, whatever their streams: what some drivers do of ranks on one device.
    void run_kernels_in_turn(bool does) { runs_in_turn_ = does; }
    /// Held while a kernel runs.
    [[nodiscard]] std::unique_lock<std::mutex> run_kernel() {
        return runs_in_turn_ ? std::unique_lock(turn_) : std::unique_lock<std::mutex>();
    }
    /// Tasks in the streams of a device.
    [[nodiscard]] std::atomic<int>& pending(std::int32_t device) { return pending_[static_cast<std::size_t>(device)]; }

    [[nodiscard]] int calls(std::string const& call) {
        std::lock_guard const lock(mutex_);
        return calls_[call];
    }
    [[nodiscard]] std::map<std::string, int> all_calls() {
        std::lock_guard const lock(mutex_);
        return calls_;
    }
    [[nodiscard]] bool is_empty() const {
        return memory == 0 && pinned == 0 && streams == 0 && events == 0 && graphs == 0 && lt_objects == 0;
    }

    [[nodiscard]] Result<> enter(std::string_view call, ErrorCode code = ErrorCode::backend_failure) {
        std::lock_guard const lock(mutex_);
        ++calls_[std::string(call)];
        if (calls_to_live_ > 0 && --calls_to_live_ == 0) (void)std::raise(SIGKILL);
        if (last_call_ == call) (void)std::raise(SIGKILL);
        if (refused_.contains(call)) return Error{ErrorCode::unsupported}.in(call).because("is refused");
        bool const is_turn = calls_to_failure_ > 0 && --calls_to_failure_ == 0;
        if (!is_turn && (failing_ != call || after_-- > 0)) return {};
        failed_ = call;
        return Error{code}.in(call).because("was told to fail");
    }

    static FakeMachine& get() {
        static FakeMachine machine;
        return machine;
    }

private:
    std::mutex turn_;
    std::atomic<bool> runs_in_turn_{false};
    std::mutex driver_;
    bool loads_lazily_ = false;
    std::set<std::pair<std::int32_t, void const*>> loaded_;
    std::array<std::atomic<int>, 16> pending_{};
    std::mutex mutex_;
    std::string failing_;
    int after_ = 0;
    int calls_to_live_ = 0;
    int calls_to_failure_ = 0;
    std::string failed_;
    std::map<std::string, int> calls_;
    std::set<std::string, std::less<>> refused_;
    std::string last_call_;
};

/// What was put into a stream while it was captured.
struct FakeGraph {
    std::vector<std::function<void()>> tasks;
    bool is_broken = false;
};

/// A stream: a thread that does what it is given, in order.
class FakeStream {
public:
    explicit FakeStream(std::int32_t on) : device(on), worker_([this] { run(); }) {}
    ~FakeStream() {
        put([this] { is_closed_ = true; });
        worker_.join();
    }
    void put(std::function<void()> task) {
        if (capture) return capture->tasks.push_back(std::move(task));
        ++FakeMachine::get().pending(device);
        {
            std::lock_guard const lock(mutex_);
            tasks_.push_back(std::move(task));
        }
        changed_.notify_one();
    }

    std::int32_t const device;
    /// Set between the begin and the end of a capture.
    std::unique_ptr<FakeGraph> capture;

private:
    void run() {
        while (!is_closed_) {
            std::function<void()> task;
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [this] { return !tasks_.empty(); });
                task = std::move(tasks_.front());
                tasks_.pop_front();
            }
            task();
            --FakeMachine::get().pending(device);
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    bool is_closed_ = false;
    std::thread worker_;
};

/// An event: a flag for each record, and the time at which it was reached.
struct FakeEvent {
    using Time = std::chrono::steady_clock::time_point;

    std::shared_ptr<std::atomic<bool>> reached = std::make_shared<std::atomic<bool>>(true);
    bool is_timed = false;
    std::shared_ptr<Time> at = std::make_shared<Time>();
};

}  // namespace shardwise::testing
