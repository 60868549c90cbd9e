// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/trace_ring.hpp>
#include <shardwise/session/run_options.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class T, Communicator C>
[[nodiscard]] Result<> send_values(C& world, T const* values, std::int64_t count, std::int32_t to) {
    return send(world, TensorView<T const, 1, Host>(values, {count}), to);
}
template <class T, Communicator C>
[[nodiscard]] Result<> receive_values(C& world, T* values, std::int64_t count, std::int32_t from) {
    return receive(world, TensorView<T, 1, Host>(values, {count}), from);
}

/// How far each rank's clock is ahead of rank 0's, told on rank 0: of sixteen pings the one that came back first, whose middle is
/// when the rank looked at its clock, to half of its time. Where the rank's clock lies between the two looks it may be the same
/// clock, and is taken for it: 0.
///
/// Units   nanoseconds
/// Source  D. L. Mills, RFC 5905, section 8: offset and delay of a clock
/// Errors  as a collective
template <Communicator C, class Now>
[[nodiscard]] Result<std::vector<std::int64_t>> measure_clocks(C& world, Now const& now) {
    constexpr int pings = 16;
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(world.size()), 0);
    for (std::int32_t rank = 1; rank < world.size(); ++rank) {
        auto shortest = std::numeric_limits<std::int64_t>::max();
        for (int i = 0; i < pings; ++i) {
            std::int64_t word = now();
            if (world.rank() == rank) {
                if (auto const done = receive_values(world, &word, 1, 0); !done) return done.error();
                word = now();
                if (auto const done = send_values(world, &word, 1, 0); !done) return done.error();
            } else if (world.rank() == 0) {
                auto const begin = word;
                if (auto const done = send_values(world, &word, 1, rank); !done) return done.error();
                if (auto const done = receive_values(world, &word, 1, rank); !done) return done.error();
                auto const end = now();
                if (end - begin >= shortest) continue;
                shortest = end - begin;
                bool const may_be_same = begin <= word && word <= end;
                offsets[static_cast<std::size_t>(rank)] = may_be_same ? 0 : word - (begin + (end - begin) / 2);
            }
        }
    }
    return offsets;
}
template <Communicator C>
[[nodiscard]] Result<std::vector<std::int64_t>> measure_clocks(C& world) {
    return measure_clocks(world, [] { return TraceRing::now(); });
}

/// An event on its way to rank 0: texts are numbers.
struct PackedEvent {
    std::int64_t begin, end, message, bytes, tokens, sequences;
    std::int32_t layer, peer, name, parameter;
    std::int32_t track, unused;
};
static_assert(std::is_trivially_copyable_v<PackedEvent>);

/// What one rank sends: its events, and their texts one after another, each ended by 0; the first is the host's name.
struct PackedTrace {
    std::vector<PackedEvent> events;
    std::string texts;
    std::int64_t dropped = 0;

    explicit PackedTrace(TraceRing const& ring) : dropped(ring.dropped()) {
        char host[256] = {};
        if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
        texts.assign(host).push_back('\0');
        std::map<std::string_view, std::int32_t> places;
        auto const place = [&](std::string_view text) {
            auto const [found, is_new] = places.emplace(text, static_cast<std::int32_t>(texts.size()));
            if (is_new) texts.append(text).push_back('\0');
            return found->second;
        };
        for (auto const& event : ring.events()) {
            events.push_back({event.begin, event.end, event.message, event.bytes, event.tokens, event.sequences,
                              event.layer, event.peer, place(event.name), place(event.parameter),
                              static_cast<std::int32_t>(event.track), 0});
        }
    }
    PackedTrace() = default;

    /// By the clock that lags by `offset`.
    [[nodiscard]] RankTrace unpack(std::int64_t offset) && {
        RankTrace trace;
        trace.texts = std::make_shared<std::string const>(std::move(texts));
        trace.host = trace.texts->c_str();
        trace.dropped = dropped;
        trace.clock_offset = offset;
        auto const text = [&](std::int32_t place) {
            auto const i = static_cast<std::size_t>(place);
            return i < trace.texts->size() ? trace.texts->c_str() + i : "";
        };
        for (auto const& event : events) {
            auto const track = static_cast<TraceTrack>(event.track);
            trace.events.push_back({event.begin - offset, event.end - offset, track, text(event.name),
                                    text(event.parameter), event.layer, event.peer, event.message, event.bytes,
                                    event.tokens, event.sequences});
        }
        return trace;
    }
};

/// Puts what every rank kept together on rank 0.
///
/// Errors  as a collective
template <Communicator C>
[[nodiscard]] Result<> gather_trace(C& world, TraceRing const& ring, std::vector<std::int64_t> const& offsets,
                                    std::vector<RankTrace>& traces) {
    auto const as_bytes = [](auto* data) { return reinterpret_cast<std::uint8_t*>(data); };
    PackedTrace own(ring);
    constexpr auto event_bytes = static_cast<std::int64_t>(sizeof(PackedEvent));
    if (world.rank() != 0) {
        std::int64_t const sizes[3] = {static_cast<std::int64_t>(own.events.size()),
                                       static_cast<std::int64_t>(own.texts.size()), own.dropped};
        if (auto const done = send_values(world, sizes, 3, 0); !done) return done;
        if (auto const done = send_values(world, as_bytes(own.events.data()), sizes[0] * event_bytes, 0); !done)
            return done;
        return send_values(world, as_bytes(own.texts.data()), sizes[1], 0);
    }
    traces.clear();
    traces.push_back(std::move(own).unpack(0));
    for (std::int32_t rank = 1; rank < world.size(); ++rank) {
        PackedTrace one;
        std::int64_t sizes[3] = {};
        if (auto const done = receive_values(world, sizes, 3, rank); !done) return done;
        one.events.resize(static_cast<std::size_t>(sizes[0]));
        one.texts.resize(static_cast<std::size_t>(sizes[1]));
        one.dropped = sizes[2];
        auto const events = receive_values(world, as_bytes(one.events.data()), sizes[0] * event_bytes, rank);
        if (!events) return events;
        if (auto const done = receive_values(world, as_bytes(one.texts.data()), sizes[1], rank); !done) return done;
        traces.push_back(std::move(one).unpack(offsets[static_cast<std::size_t>(rank)]));
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
