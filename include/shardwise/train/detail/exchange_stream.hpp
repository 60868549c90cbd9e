// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/shared_memory.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/core/deadline.hpp>

#include <atomic>
#include <chrono>
#include <concepts>
#include <memory>
#include <optional>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Whether one thread of a rank may end a communicator that another is using, or use one that was split from it: over MPI and Gloo shardwise
/// lets one thread at a time use them all, though MPI is started with MPI_THREAD_MULTIPLE. Of a user's own one it is what it is made of that
/// says so.
template <class C>
[[nodiscard]] bool takes_several_threads([[maybe_unused]] C& comm) {
    if constexpr (requires { comm.kind(); })
        return comm.kind() == Threads::name || comm.kind() == SharedMemory::name;
    else
        return std::derived_from<C, Threads> || std::derived_from<C, SharedMemory>;
}

/// Whether a thread of its own may use a communicator while others of the rank compute; `is_alone` where these use no other one that was
/// split from the same. A transport of a user's own may say no by a member `runs_beside`.
template <class C>
[[nodiscard]] bool runs_beside(C& comm, bool is_alone) {
    bool const may = is_alone || takes_several_threads(comm);
    if constexpr (requires { C::runs_beside; })
        return may && C::runs_beside;
    else
        return may;
}

/// The stream in which a rank exchanges gradients, beside the one that computes them.
class ExchangeStream {
public:
    explicit ExchangeStream(std::chrono::nanoseconds timeout) : state_(std::make_unique<State>(timeout)) {}

    [[nodiscard]] HostStream& stream() { return state_->stream; }
    /// Has what is put in from now on come after what `computes` holds now.
    void follow(HostStream& computes) {
        state_->computed.record(computes);
        state_->computed.block(state_->stream, state_->timeout);
    }
    /// Before calls in the stream and behind them: their waits leave the core to what is computed, and the time of a communicator that tells
    /// is counted.
    template <class C>
    void bracket(C& comm, bool is_begin) {
        state_->stream.submit([state = state_.get(), &comm, is_begin] {
            state->is_calling = is_begin;
            if constexpr (requires { comm.wait_gently(is_begin); }) comm.wait_gently(is_begin);
            if constexpr (requires { comm.time_of_calls(); })
                state->called += is_begin ? -comm.time_of_calls() : comm.time_of_calls();
            return Result<>{};
        });
    }
    /// Holds `computes` up until all that was put in is done.
    ///
    /// Errors  that of the first task stops `computes`
    void join(HostStream& computes) {
        state_->exchanged.record(state_->stream);
        computes.submit([state = state_.get(), event = state_->exchanged] {
            auto const begin = std::chrono::steady_clock::now();
            auto const there = event.synchronize(Deadline::after(state->timeout));
            state->waited += std::chrono::steady_clock::now() - begin;
            return there;
        });
    }
    /// Waits for what was put in.
    [[nodiscard]] Result<> synchronize(Deadline deadline) { return state_->stream.synchronize(deadline); }
    /// Whether the stream has failed in calls of its own, and not because what it follows has. For after what is in it.
    [[nodiscard]] bool has_failed_in_calls() const { return state_->is_calling; }
    /// How much longer calls in the stream have taken so far than streams have waited in `join`. For after what is in them.
    [[nodiscard]] std::chrono::nanoseconds hidden() const { return state_->called - state_->waited; }

private:
    /// In one place, which tasks know.
    struct State {
        explicit State(std::chrono::nanoseconds limit) : timeout(limit), stream(StreamMode::queued) {}

        std::chrono::nanoseconds timeout;
        HostEvent computed;
        HostEvent exchanged;
        std::chrono::nanoseconds called{0};
        std::chrono::nanoseconds waited{0};
        /// Between the two ends of a bracket; what comes behind a failure is skipped.
        std::atomic<bool> is_calling{false};
        HostStream stream;
    };

    std::unique_ptr<State> state_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
