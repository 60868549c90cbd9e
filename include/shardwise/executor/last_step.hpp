// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/deadline.hpp>

#include <chrono>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The end of the last step that was put into a stream. It is waited for when this goes, at most as long as `limit`: a member
/// declared after what steps read keeps that alive so long.
template <OrdersStreams Backend>
struct LastStep {
    typename Backend::Event event;
    /// A device's is its context's.
    std::chrono::nanoseconds limit = std::chrono::hours(24 * 365);

    LastStep() = default;
    LastStep(LastStep&&) noexcept = default;
    LastStep& operator=(LastStep&&) noexcept = default;
    ~LastStep() { (void)event.synchronize(Deadline::after(limit)); }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
