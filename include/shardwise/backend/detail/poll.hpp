// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Asks `is_reached` until it says yes, an error, or the deadline passes: at once, then with pauses that double. Vendors have
/// no wait with a limit, so this is the only wait there is.
template <class IsReached>
[[nodiscard]] Result<bool> poll(IsReached const& is_reached, Deadline deadline) {
    using std::chrono::microseconds;
    // Most kernels are shorter than a sleep is long.
    auto const spin = Deadline::after(microseconds{50});
    auto pause = microseconds{10};
    while (true) {
        auto const reached = is_reached();
        if (!reached || *reached) return reached;
        if (deadline.has_passed()) return false;
        if (!spin.has_passed()) {
            std::this_thread::yield();
            continue;
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, microseconds{1000});
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
