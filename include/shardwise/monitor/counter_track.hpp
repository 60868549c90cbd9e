// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>
#include <optional>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Adds up what a counter counted since the first look, over its wraps and resets.
class CounterTrack {
public:
    /// Takes the counter's value. `range` is the number of values that it has before it begins at 0 again; 0 where it is as
    /// good as endless. One that falls has wrapped if that makes the step less than half of its range, else it was reset, and
    /// has counted from 0 since.
    ///
    /// Order  to be called more than twice in each of its rounds
    void advance(std::uint64_t value, std::uint64_t range = 0) {
        if (last_) {
            auto const step = value >= *last_ ? value - *last_ : fallen(value, range);
            total_ += static_cast<double>(step);
        }
        last_ = value;
    }
    /// Since the first value, in the counter's unit.
    [[nodiscard]] double total() const { return total_; }
    [[nodiscard]] bool has_begun() const { return last_.has_value(); }

private:
    [[nodiscard]] std::uint64_t fallen(std::uint64_t value, std::uint64_t range) const {
        if (range <= *last_) return value;
        auto const step = range - *last_ + value;
        return step < range / 2 ? step : value;
    }

    std::optional<std::uint64_t> last_{};
    double total_ = 0.0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
