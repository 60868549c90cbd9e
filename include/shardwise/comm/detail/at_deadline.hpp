// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Acts once a moment has passed, in a thread of its own, unless it is over before.
class AtDeadline {
public:
    /// Throws std::system_error where the system has no thread for it.
    AtDeadline(Deadline const& deadline, std::function<void()> act)
        : thread_([this, deadline, act = std::move(act)] { run(deadline, act); }) {}
    AtDeadline(AtDeadline const&) = delete;
    AtDeadline& operator=(AtDeadline const&) = delete;
    ~AtDeadline() { (void)has_acted(); }

    /// Ends it: true where it has acted, and not any more once this has returned false.
    [[nodiscard]] bool has_acted() {
        {
            std::lock_guard const lock(mutex_);
            is_over_ = true;
        }
        wake_.notify_one();
        if (thread_.joinable()) thread_.join();
        return has_acted_;
    }

private:
    void run(Deadline const& deadline, std::function<void()> const& act) {
        std::unique_lock lock(mutex_);
        if (wake_.wait_until(lock, deadline.moment(), [this] { return is_over_; })) return;
        has_acted_ = true;
        lock.unlock();
        act();
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    bool is_over_ = false;
    bool has_acted_ = false;
    std::thread thread_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
