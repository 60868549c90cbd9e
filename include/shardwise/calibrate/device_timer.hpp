// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/backend/timed_event.hpp>
#include <shardwise/calibrate/rate_probe.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How long calls take on a device, by its own clock.
template <class Api>
class DeviceTimer {
public:
    using Backend = DeviceBackend<Api>;

    /// Errors  backend_failure
    [[nodiscard]] static Result<DeviceTimer> open(DeviceContext<Api>& context) {
        auto first = TimedEvent<Api>::make(context.device());
        if (!first) return first.error();
        auto last = TimedEvent<Api>::make(context.device());
        if (!last) return last.error();
        return DeviceTimer(context, std::move(*first), std::move(*last));
    }

    [[nodiscard]] DeviceContext<Api>& context() { return context_; }
    [[nodiscard]] DeviceStream<Api>& stream() { return stream_; }

    /// The shortest time of call(), which puts its work into `stream` and returns a Result<>: of as many calls at a time as
    /// take two milliseconds, so that the host keeps up. Nothing is left in the stream afterwards, also of what was put into it
    /// before and after a failure: memory that it uses may go.
    ///
    /// Units   seconds
    /// Errors  those of the call and of the stream; deadline_exceeded, naming the probe
    template <class Call>
    [[nodiscard]] Result<double> seconds(RateProbe const& probe, Call const& call) {
        auto const best = best_of_batches(probe, call);
        if (!best) (void)stream_.synchronize(Deadline::after(context_.limit()));
        return best;
    }

private:
    DeviceTimer(DeviceContext<Api>& context, TimedEvent<Api> first, TimedEvent<Api> last)
        : context_(context), stream_(context.make_stream()), first_(std::move(first)), last_(std::move(last)) {}

    template <class Call>
    [[nodiscard]] Result<double> best_of_batches(RateProbe const& probe, Call const& call) {
        // The first call loads code; the second tells how many to take.
        std::int64_t calls = 1;
        for (int i = 0; i < 2; ++i) {
            auto const tried = batch(probe, call, 1);
            if (!tried) return tried;
            calls = static_cast<std::int64_t>(std::clamp(2e-3 / std::max(*tried, 1e-7), 1.0, 1000.0));
        }
        double best = 1e30;
        auto const end = Deadline::after(probe.time);
        for (int runs = 0; runs < probe.runs || !end.has_passed(); ++runs) {
            auto const found = batch(probe, call, calls);
            if (!found) return found;
            best = std::min(best, *found);
        }
        return std::max(best, 1e-9);
    }
    template <class Call>
    [[nodiscard]] Result<double> batch(RateProbe const& probe, Call const& call, std::int64_t calls) {
        if (probe.deadline.has_passed()) return late(probe);
        first_.record(stream_);
        for (std::int64_t i = 0; i < calls; ++i) {
            if (auto const done = call(); !done) return done.error();
        }
        last_.record(stream_);
        if (auto const done = stream_.synchronize(probe.deadline); !done)
            return done.error().code() == ErrorCode::deadline_exceeded ? late(probe) : done.error();
        auto const passed = last_.since(first_);
        if (!passed) return passed;
        return *passed / static_cast<double>(calls);
    }

    DeviceContext<Api>& context_;
    DeviceStream<Api> stream_;
    TimedEvent<Api> first_;
    TimedEvent<Api> last_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
