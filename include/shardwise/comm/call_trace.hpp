// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/trace_ring.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Tells of the collective that a communicator is asked for: its kind and bytes are what its counters say afterwards.
template <class Call>
[[nodiscard]] auto trace_collective(Tracer const& tracer, Traffic const& traffic, Call const& call) {
    auto const before = traffic;
    tracer([](TraceRing& ring) { ring.begin_call(); });
    auto result = call();
    std::string_view name;
    for (std::size_t i = 0; i < collective_kinds && name.empty(); ++i) {
        auto const kind = static_cast<CollectiveKind>(i);
        if (traffic.of(kind).calls != before.of(kind).calls) name = name_of(kind);
    }
    auto const bytes = traffic.total().bytes - before.total().bytes;
    tracer([&](TraceRing& ring) { ring.end_call(name, bytes); });
    return result;
}

/// Tells of a message to or from a rank of the communicator.
template <class Call>
[[nodiscard]] auto trace_message(Tracer const& tracer, std::int32_t peer, std::int64_t bytes, bool is_sent,
                                 Call const& call) {
    tracer([](TraceRing& ring) { ring.begin_call(); });
    auto result = call();
    tracer([&](TraceRing& ring) {
        auto const other = tracer.first_rank() + peer;
        auto const kind = is_sent ? CollectiveKind::send : CollectiveKind::receive;
        ring.end_call(name_of(kind), bytes, other, ring.next_message(other, is_sent));
    });
    return result;
}

/// Tells of a wait for other ranks, from its making to its end.
class WaitTrace {
public:
    explicit WaitTrace(Tracer const& tracer) : tracer_(tracer) {
        tracer_([this](TraceRing&) { begin_ = TraceRing::now(); });
    }
    WaitTrace(WaitTrace const&) = delete;
    WaitTrace& operator=(WaitTrace const&) = delete;
    ~WaitTrace() {
        tracer_([this](TraceRing& ring) { ring.end_wait(begin_); });
    }

private:
    Tracer const& tracer_;
    std::int64_t begin_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
