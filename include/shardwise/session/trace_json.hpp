// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/writer.hpp>
#include <shardwise/session/run_options.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Writes one trace after another; times count from the first event of all.
class TraceWriter {
public:
    explicit TraceWriter(std::vector<RankTrace> const& traces) : traces_(traces) {
        for (auto const& trace : traces) {
            for (auto const& event : trace.events) origin_ = std::min(origin_, event.begin);
        }
        for (std::size_t rank = 0; rank < traces.size(); ++rank) {
            for (auto const& event : traces[rank].events) {
                if (event.message >= 0 && event.name == "send")
                    sends_.emplace(Message{number(rank), event.peer, event.message}, event.begin);
            }
        }
    }

    [[nodiscard]] std::string text() && {
        json_.begin_object().member("displayTimeUnit", "ns").key("otherData").begin_object();
        json_.member("schema", "shardwise.trace/1").key("ranks").begin_array();
        for (auto const& trace : traces_) {
            json_.begin_object().member("host", trace.host).member("dropped_events", trace.dropped);
            json_.member("clock_offset_s", static_cast<double>(trace.clock_offset) * 1e-9).end_object();
        }
        json_.end_array().end_object().key("traceEvents").begin_array();
        for (std::size_t rank = 0; rank < traces_.size(); ++rank) {
            name_tracks(rank);
            for (auto const& event : traces_[rank].events) write(rank, event);
        }
        json_.end_array().end_object();
        return std::move(json_).text() + "\n";
    }

private:
    /// From, to, and its number between the two.
    using Message = std::array<std::int64_t, 3>;

    [[nodiscard]] static std::int64_t number(std::size_t rank) { return static_cast<std::int64_t>(rank); }
    /// Microseconds, as the format has it.
    [[nodiscard]] double moment(std::int64_t time) const { return static_cast<double>(time - origin_) / 1000.0; }

    JsonWriter& begin(std::string_view phase, std::string_view name, std::size_t rank, TraceTrack track) {
        json_.begin_object().member("ph", phase).member("name", name).member("pid", number(rank));
        return json_.member("tid", static_cast<std::int64_t>(track));
    }
    void name_tracks(std::size_t rank) {
        auto const describe = [&](std::string_view what, TraceTrack track, std::string_view text) {
            begin("M", what, rank, track).key("args").begin_object().member("name", text).end_object().end_object();
        };
        describe("process_name", TraceTrack::compute, "rank " + std::to_string(rank) + " on " + traces_[rank].host);
        for (auto const track : {TraceTrack::compute, TraceTrack::communication, TraceTrack::wait})
            describe("thread_name", track, name_of(track));
    }
    void write(std::size_t rank, TraceEvent const& event) {
        begin("X", event.name, rank, event.track).member("cat", name_of(event.track));
        json_.member("ts", moment(event.begin)).member("dur", static_cast<double>(event.end - event.begin) / 1000.0);
        json_.key("args").begin_object();
        if (!event.parameter.empty()) json_.member("parameter", event.parameter);
        for (auto const& [key, value] : {std::pair<std::string_view, std::int64_t>{"layer", event.layer},
                                         {"bytes", event.bytes},
                                         {"peer", event.peer},
                                         {"tokens", event.tokens},
                                         {"sequences", event.sequences}}) {
            if (value >= 0) json_.member(key, value);
        }
        json_.end_object().end_object();
        if (event.message >= 0 && event.name == "receive") write_flow(rank, event);
    }
    /// From a send that is still there to the end of its receive.
    void write_flow(std::size_t rank, TraceEvent const& received) {
        auto const sent = sends_.find(Message{received.peer, number(rank), received.message});
        if (sent == sends_.end()) return;
        ++flows_;
        auto const from = static_cast<std::size_t>(received.peer);
        begin("s", "message", from, TraceTrack::communication).member("cat", "message").member("id", flows_);
        json_.member("ts", moment(sent->second)).end_object();
        begin("f", "message", rank, TraceTrack::communication).member("cat", "message").member("id", flows_);
        // An arrow ends inside of its event.
        json_.member("bp", "e").member("ts", moment(std::max(received.begin, received.end - 1))).end_object();
    }

    std::vector<RankTrace> const& traces_;
    JsonWriter json_;
    std::map<Message, std::int64_t> sends_;
    std::int64_t origin_ = std::numeric_limits<std::int64_t>::max();
    std::int64_t flows_ = 0;
};

}  // namespace detail

/// The traces of a run as Perfetto and chrome://tracing read them: a process per rank, a thread per track, complete events, and an
/// arrow from each message's send to its receive where both are there. `otherData.ranks` has what was dropped.
///
/// Units   microseconds, from the first event on
/// Source  "Trace Event Format" of Chromium's Catapult project
[[nodiscard]] inline std::string trace_json(std::vector<RankTrace> const& traces) {
    return detail::TraceWriter(traces).text();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
