// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/call.hpp>
#include <shardwise/core/trace_ring.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a rank took from the other ranks in collectives of one kind.
///
/// Units  bytes of data: neither what describes the calls nor what a rank keeps of its own. Messages that come from several
///        ranks at once are one message: the terms of latency of a cost model (cost/collective.hpp)
struct CollectiveTraffic {
    std::int64_t calls = 0;
    std::int64_t messages = 0;
    std::int64_t bytes = 0;

    constexpr CollectiveTraffic& operator+=(CollectiveTraffic const& more) {
        calls += more.calls;
        messages += more.messages;
        bytes += more.bytes;
        return *this;
    }
    friend constexpr bool operator==(CollectiveTraffic const&, CollectiveTraffic const&) = default;
};

/// The traffic of one rank by kind of collective, from the beginning of its group or the last clear().
class Traffic {
public:
    [[nodiscard]] constexpr CollectiveTraffic const& of(CollectiveKind kind) const { return kinds_[index(kind)]; }
    [[nodiscard]] constexpr CollectiveTraffic total() const {
        CollectiveTraffic total;
        for (auto const& each : kinds_) total += each;
        return total;
    }
    constexpr void clear() { kinds_ = {}; }
    /// Adds what the rank took in another of its groups.
    constexpr Traffic& operator+=(Traffic const& more) {
        for (std::size_t i = 0; i < kinds_.size(); ++i) kinds_[i] += more.kinds_[i];
        return *this;
    }

    constexpr void begin(CollectiveKind kind) { ++kinds_[index(kind)].calls; }
    constexpr void take(CollectiveKind kind, std::int64_t messages, std::int64_t bytes) {
        kinds_[index(kind)].messages += messages;
        kinds_[index(kind)].bytes += bytes;
    }

    /// Where the waits of these calls are told.
    constexpr void trace(Tracer const& tracer) { tracer_ = tracer; }
    [[nodiscard]] constexpr Tracer const& tracer() const { return tracer_; }

private:
    static constexpr std::size_t index(CollectiveKind kind) { return static_cast<std::size_t>(kind); }

    std::array<CollectiveTraffic, collective_kinds> kinds_{};
    Tracer tracer_{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
