// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <chrono>
#include <condition_variable>
#include <gloo/transport/unbound_buffer.h>
#include <mutex>
#include <thread>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Ends the wait of the calling thread for a message of Gloo, once: within 50 ms, or at a given moment before. Gloo keeps an
/// interruption until the wait begins.
class GlooInterrupter {
    using Moment = std::chrono::steady_clock::time_point;

public:
    GlooInterrupter() : thread_([this] { run(); }) {}
    GlooInterrupter(GlooInterrupter const&) = delete;
    GlooInterrupter& operator=(GlooInterrupter const&) = delete;
    ~GlooInterrupter() {
        {
            std::lock_guard const lock(mutex_);
            is_over_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }
    void begin(gloo::transport::UnboundBuffer* buffer, bool is_send, Moment until) {
        bool is_sooner = false;
        {
            std::lock_guard const lock(mutex_);
            buffer_ = buffer;
            is_send_ = is_send;
            until_ = until;
            is_sooner = until < wakes_at_;
        }
        if (is_sooner) wake_.notify_one();
    }
    /// The buffer is not touched any more.
    void end() {
        std::lock_guard const lock(mutex_);
        buffer_ = nullptr;
    }

private:
    void run() {
        std::unique_lock lock(mutex_);
        auto const is_due_sooner = [this] { return is_over_ || (buffer_ != nullptr && until_ < wakes_at_); };
        while (!is_over_) {
            wakes_at_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
            while (wake_.wait_until(lock, wakes_at_, is_due_sooner) && !is_over_) wakes_at_ = until_;
            if (buffer_ == nullptr) continue;
            if (is_send_)
                buffer_->abortWaitSend();
            else
                buffer_->abortWaitRecv();
            buffer_ = nullptr;
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    gloo::transport::UnboundBuffer* buffer_ = nullptr;
    Moment until_{};
    /// When the thread looks again.
    Moment wakes_at_{};
    bool is_send_ = false;
    bool is_over_ = false;
    std::thread thread_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
