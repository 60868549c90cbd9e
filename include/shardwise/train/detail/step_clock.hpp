// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/step_times.hpp>

#include <chrono>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Tells what a step's time went to. Moments are taken where the stream is done, so that they are the same for every kind of it.
template <class Comm>
class StepClock {
public:
    /// Begins a step.
    explicit StepClock(Comm& comm) : comm_(&comm), last_(Clock::now()), calls_(calls()) {}

    /// What has passed since the last call goes to a part, but for what went to other ranks.
    void take(double StepTimes::*part) {
        auto const now = Clock::now();
        auto const all_calls = calls();
        auto const passed = std::chrono::duration<double>(now - last_).count();
        auto const called = std::chrono::duration<double>(all_calls - calls_).count();
        times_.step += passed;
        times_.communication += called;
        times_.exposed += called;
        times_.*part += passed > called ? passed - called : 0.0;
        last_ = now;
        calls_ = all_calls;
    }
    [[nodiscard]] StepTimes const& times() const { return times_; }

private:
    using Clock = std::chrono::steady_clock;

    [[nodiscard]] std::chrono::nanoseconds calls() const {
        if constexpr (requires { comm_->time_of_calls(); }) {
            return comm_->time_of_calls();
        } else {
            return std::chrono::nanoseconds{0};
        }
    }

    Comm* comm_;
    Clock::time_point last_;
    std::chrono::nanoseconds calls_;
    StepTimes times_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
