// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/catch_exceptions.hpp>
#include <shardwise/backend/host/stream.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a rank that trains is at, in the order of a step.
enum class TrainingPhase : std::uint8_t {
    data,        // the batch is read, and its tokens are counted over ranks
    forward,     // forward passes, with the weights of ZeRO 3 that they gather
    backward,    // the loss, and backward passes
    bucket,      // gradients are summed over leaves and ranks
    norm,        // the norm of all gradients, and the loss
    optimizer,   // weights change
    gather,      // ranks get the weights that others have changed
    checkpoint,  // a checkpoint is written
    validation,  // the loss over a held-out set
};

[[nodiscard]] constexpr std::string_view name_of(TrainingPhase phase) {
    switch (phase) {
        case TrainingPhase::data:
            return "data";
        case TrainingPhase::forward:
            return "forward";
        case TrainingPhase::backward:
            return "backward";
        case TrainingPhase::bucket:
            return "bucket";
        case TrainingPhase::norm:
            return "norm";
        case TrainingPhase::optimizer:
            return "optimizer";
        case TrainingPhase::gather:
            return "gather";
        case TrainingPhase::checkpoint:
            return "checkpoint";
        case TrainingPhase::validation:
            return "validation";
    }
    return "unknown";
}

/// The phase that a rank is at: what it says of lost ranks and of time that is up, and where a program looks on.
class TrainingPhases {
public:
    /// Called when a phase begins, with the number of the step; what it returns, or throws, is the failure of that step.
    using Hook = std::function<Result<>(TrainingPhase, std::int64_t)>;

    TrainingPhases() : state_(std::make_unique<State>()) {}

    /// The hook of all phases from now on; none: nobody looks on.
    void on_begin(Hook hook) { state_->hook = std::move(hook); }
    /// The step that the next phases are of.
    void begin_step(std::int64_t number) { state_->step.store(number, std::memory_order_relaxed); }

    /// Begins a phase.
    ///
    /// Errors  the hook's
    [[nodiscard]] Result<> begin(TrainingPhase phase) { return state_->begin(phase); }
    /// When the stream gets here; the hook's failure is the stream's.
    void begin(TrainingPhase phase, HostStream& stream) const {
        stream.submit([state = state_.get(), phase] { return state->begin(phase); });
    }

    [[nodiscard]] TrainingPhase current() const { return state_->current.load(std::memory_order_relaxed); }
    /// The same error with the phase that it came up in, where ranks wait for each other, and the step, counted from 1.
    [[nodiscard]] Error name(Error const& error) const { return name(error, current()); }
    [[nodiscard]] Error name(Error error, TrainingPhase phase) const {
        bool const is_of_ranks = error.code() == ErrorCode::rank_lost || error.code() == ErrorCode::deadline_exceeded ||
                                 error.code() == ErrorCode::collective_mismatch;
        constexpr std::string_view words = ", in phase ";
        if (!is_of_ranks || error.reason().find(words) != std::string_view::npos) return error;
        return error.because(std::string(error.reason()) + std::string(words) + std::string(name_of(phase)) +
                             " of step " + std::to_string(state_->step.load(std::memory_order_relaxed) + 1));
    }

private:
    struct State {
        std::atomic<TrainingPhase> current{TrainingPhase::data};
        std::atomic<std::int64_t> step{0};
        Hook hook;

        [[nodiscard]] Result<> begin(TrainingPhase phase) {
            current.store(phase, std::memory_order_relaxed);
            if (!hook) return {};
            // Others wait for this rank: what it throws is told to them as any failure is.
            return detail::catch_exceptions(ErrorCode::backend_failure, "step",
                                            [&] { return hook(phase, step.load(std::memory_order_relaxed)); });
        }
    };

    /// Tasks of a stream keep its address.
    std::unique_ptr<State> state_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
