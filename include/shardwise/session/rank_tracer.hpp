// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/trace_ring.hpp>
#include <shardwise/session/gather_trace.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The trace of one rank of a run, from the comparison of clocks to what rank 0 gets; off until begun with events to keep.
///
/// Order  begin and end are collectives
class RankTracer {
public:
    /// Errors  those of TraceRing::create and of the collectives
    template <Communicator C>
    [[nodiscard]] Result<> begin(C& world, std::int64_t events) {
        if constexpr (!has_trace) return {};
        if (events == 0) return {};
        auto ring = TraceRing::create(events);
        if (!ring) return ring.error();
        auto offsets = measure_clocks(world);
        if (!offsets) return offsets.error();
        offsets_ = *std::move(offsets);
        ring_.emplace(*std::move(ring));
        return {};
    }
    [[nodiscard]] bool is_on() const { return ring_.has_value(); }
    /// Only where it is on.
    [[nodiscard]] Tracer tracer() { return Tracer(*ring_); }
    /// Gives rank 0 all traces.
    ///
    /// Errors  as a collective
    template <Communicator C>
    [[nodiscard]] Result<> end(C& world, std::vector<RankTrace>& traces) {
        if (!ring_) return {};
        auto const done = gather_trace(world, *ring_, offsets_, traces);
        ring_.reset();
        return done;
    }

private:
    std::optional<TraceRing> ring_;
    std::vector<std::int64_t> offsets_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
