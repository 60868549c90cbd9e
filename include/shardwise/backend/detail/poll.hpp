// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Asks `is_reached` until it says yes, an error, or the deadline passes: without a pause for as long as a step of a model takes, then
/// with pauses of a sixteenth of the time that has passed. Vendors have no wait with a limit, so this is the only wait there is.
template <class IsReached>
[[nodiscard]] Result<bool> poll(IsReached const& is_reached, Deadline deadline) {
    using std::chrono::microseconds;
    // A sleep is some 60 microseconds longer than it is asked to be.
    auto const spin = Deadline::after(microseconds{2000});
    auto const begin = std::chrono::steady_clock::now();
    while (true) {
        auto const reached = is_reached();
        if (!reached || *reached) return reached;
        if (deadline.has_passed()) return false;
        if (!spin.has_passed()) {
            std::this_thread::yield();
            continue;
        }
        auto const passed = std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - begin);
        std::this_thread::sleep_for(std::min(passed / 16, microseconds{1000}));
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
