// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/calibrate/rate_probe.hpp>
#include <shardwise/core/result.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How long calls take on the host, by its clock.
class HostTimer {
public:
    using Backend = Host;

    explicit HostTimer(HostContext& context) : context_(context), stream_(context.make_stream()) {}

    [[nodiscard]] HostContext& context() { return context_; }
    [[nodiscard]] HostStream& stream() { return stream_; }

    /// The shortest time of call(), which puts its work into `stream` and returns a Result<>.
    ///
    /// Units   seconds
    /// Errors  those of the call; deadline_exceeded, naming the probe
    template <class Call>
    [[nodiscard]] Result<double> seconds(RateProbe const& probe, Call const& call) {
        return best_seconds(probe, [&]() -> Result<> {
            if (auto const done = call(); !done) return done;
            return stream_.synchronize(probe.deadline);
        });
    }

private:
    HostContext& context_;
    HostStream stream_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
