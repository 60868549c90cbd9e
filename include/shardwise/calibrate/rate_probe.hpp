// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How long one rate is measured: the best of as many runs as fit counts, since what else a machine does only ever
/// slows it.
struct RateProbe {
    /// What is measured, for errors.
    std::string_view name = "probe";
    std::chrono::nanoseconds time = std::chrono::milliseconds(300);
    /// The least number of runs that count, however long they take.
    int runs = 2;
    Deadline deadline = Deadline::after(std::chrono::minutes(1));
};

/// A probe that its deadline stopped.
[[nodiscard]] inline Error late(RateProbe const& probe) {
    return Error{ErrorCode::deadline_exceeded}
        .in("calibrate")
        .at(probe.name)
        .because("was not measured in time")
        .fix("try again when the machine has less to do");
}

/// The shortest time of run(), which returns a Result<>. The first run does not count.
///
/// Units   seconds
/// Errors  those of `run`; deadline_exceeded, naming the probe
template <class Run>
[[nodiscard]] Result<double> best_seconds(RateProbe const& probe, Run const& run) {
    using Clock = std::chrono::steady_clock;
    if (auto const done = run(); !done) return done.error();
    double best = 1e30;
    auto const begin = Clock::now();
    for (int runs = 0; runs < probe.runs || Clock::now() - begin < probe.time; ++runs) {
        if (probe.deadline.has_passed()) return late(probe);
        auto const start = Clock::now();
        if (auto const done = run(); !done) return done.error();
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return std::max(best, 1e-9);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
