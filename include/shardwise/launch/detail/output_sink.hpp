// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/start_thread.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/version.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Writes to a descriptor in a thread of its own, so that who reads slowly, or not at all, stops nobody but those who write
/// to the same one. Texts are written whole, in their order.
class OutputSink {
public:
    /// More than that is not taken (but for the text that goes beyond it).
    static constexpr std::size_t capacity = 1U << 20U;

    /// `wake` is written to, as to an eventfd, when there is capacity again and when writing fails.
    OutputSink(int descriptor, int wake) : state_(std::make_shared<State>()) {
        // Its own: the thread may still be in a write when whoever gave it has closed it.
        state_->descriptor = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
        if (state_->descriptor < 0) {
            state_->problem = errno;
            return;
        }
        state_->wake = wake;
        // Its failures come as errors and not as signals.
        sigset_t all;
        sigset_t before;
        sigfillset(&all);
        (void)pthread_sigmask(SIG_BLOCK, &all, &before);
        std::thread thread;
        if (start_thread(thread, [state = state_] { work(state); }))
            thread.detach();
        else
            state_->problem = EAGAIN;
        (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    OutputSink(OutputSink const&) = delete;
    OutputSink& operator=(OutputSink const&) = delete;
    /// What is not written yet is given up: a thread that the system does not let go keeps its own state.
    ~OutputSink() {
        std::lock_guard const lock(state_->mutex);
        state_->is_closed = true;
        state_->waiting.clear();
        state_->changed.notify_all();
    }

    [[nodiscard]] bool is_full() const {
        std::lock_guard const lock(state_->mutex);
        state_->has_asked = state_->size >= capacity;
        return state_->has_asked;
    }
    void add(std::string&& text) {
        if (text.empty()) return;
        std::lock_guard const lock(state_->mutex);
        if (state_->problem != 0) return;
        state_->size += text.size();
        if (state_->waiting.empty())
            state_->waiting = std::move(text);
        else
            state_->waiting += text;
        state_->changed.notify_all();
    }
    /// The system's error that ended the writing; 0 where there was none.
    [[nodiscard]] int problem() const {
        std::lock_guard const lock(state_->mutex);
        return state_->problem;
    }
    /// Waits until all is written; false where the deadline passes before.
    [[nodiscard]] bool flush(Deadline deadline) const {
        std::unique_lock lock(state_->mutex);
        auto const limit = std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::hours(24));
        return state_->changed.wait_for(lock, limit, [this] { return state_->size == 0 || state_->problem != 0; });
    }

private:
    struct State {
        State() = default;
        State(State const&) = delete;
        State& operator=(State const&) = delete;
        ~State() {
            if (descriptor >= 0) ::close(descriptor);
        }

        std::mutex mutex;
        std::condition_variable changed;
        std::string waiting;
        /// Of what waits and of what is being written.
        std::size_t size = 0;
        int descriptor = -1;
        int wake = -1;
        int problem = 0;
        bool is_closed = false;
        bool has_asked = false;
    };

    static void work(std::shared_ptr<State> const& state) {
        std::string text;
        while (true) {
            {
                std::unique_lock lock(state->mutex);
                state->changed.wait(lock, [&] { return state->is_closed || !state->waiting.empty(); });
                if (state->is_closed) return;
                text.clear();
                text.swap(state->waiting);
            }
            std::string_view rest(text);
            int problem = 0;
            while (!rest.empty() && problem == 0) {
                auto const count = ::write(state->descriptor, rest.data(), rest.size());
                if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
                if (count >= 0 || errno == EINTR) continue;
                if (errno == EAGAIN || errno == EWOULDBLOCK) {
                    // Somebody else made it not wait.
                    pollfd entry{state->descriptor, POLLOUT, 0};
                    (void)::poll(&entry, 1, 100);
                    std::lock_guard const lock(state->mutex);
                    if (state->is_closed) return;
                } else {
                    problem = errno;
                }
            }
            std::lock_guard const lock(state->mutex);
            state->size -= text.size();
            if (problem != 0) {
                state->problem = problem;
                state->waiting.clear();
                state->size = 0;
            }
            state->changed.notify_all();
            if (!state->is_closed && (problem != 0 || (state->has_asked && state->size < capacity))) {
                std::uint64_t const one = 1;
                (void)!::write(state->wake, &one, sizeof one);
            }
            if (problem != 0) return;
        }
    }

    std::shared_ptr<State> state_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
