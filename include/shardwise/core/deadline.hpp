// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <chrono>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A moment after which a blocking call gives up. Every blocking call has one.
class Deadline {
public:
    using Clock = std::chrono::steady_clock;

    /// `time` from now; where the clock does not count so far, the last moment that it has.
    [[nodiscard]] static Deadline after(std::chrono::nanoseconds time) {
        auto const now = Clock::now();
        bool const is_beyond = time > Clock::time_point::max() - now;
        return Deadline(is_beyond ? Clock::time_point::max() : now + time);
    }

    [[nodiscard]] bool has_passed() const { return Clock::now() >= moment_; }
    [[nodiscard]] Clock::time_point moment() const { return moment_; }
    /// The time until then; nothing once it has passed.
    [[nodiscard]] std::chrono::nanoseconds left() const {
        auto const now = Clock::now();
        return moment_ > now ? moment_ - now : Clock::duration::zero();
    }

private:
    explicit Deadline(Clock::time_point moment) : moment_(moment) {}

    Clock::time_point moment_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
