// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/session/gather_trace.hpp>
#include <shardwise/session/trace_json.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace shardwise;

TEST_CASE("measure_clocks: clocks of other machines are found within half of a ping, and one clock is told to be one") {
    for (std::int64_t const apart : {std::int64_t{0}, std::int64_t{5'000'000'000}, std::int64_t{-7'000'000'000}}) {
        std::vector<std::int64_t> offsets;
        auto const done = run_threads(4, [&](Threads& comm) -> Result<> {
            // Ranks 2 and 3 are on a machine whose clock began at another time.
            auto const ahead = comm.rank() >= 2 ? apart : 0;
            auto found = detail::measure_clocks(comm, [ahead] { return TraceRing::now() + ahead; });
            if (!found) return found.error();
            if (comm.rank() == 0) offsets = *found;
            return {};
        });
        REQUIRE_MESSAGE(done, done.error().message());
        REQUIRE(offsets.size() == 4);
        CHECK(offsets[1] == 0);
        for (std::size_t rank = 2; rank < 4; ++rank) {
            if (apart == 0) CHECK(offsets[rank] == 0);
            // The quickest of 16 pings on a busy machine takes less than 20 ms.
            CHECK(std::llabs(offsets[rank] - apart) < 10'000'000);
        }
    }
}

TEST_CASE("gather_trace: rank 0 gets all events with their texts, by its own clock, and the numbers of those dropped") {
    std::vector<RankTrace> traces;
    auto const done = run_threads(3, [&](Threads& comm) -> Result<> {
        auto ring = TraceRing::create(2);
        if (!ring) return ring.error();
        for (int i = 0; i <= comm.rank(); ++i) {
            TraceEvent event{1000 + i, 2000 + i, TraceTrack::communication, "receive", "lm_head.weight"};
            event.peer = 1;
            event.layer = comm.rank();
            event.bytes = 12;
            event.message = i;
            ring->add(event);
        }
        std::vector<RankTrace> own;
        auto const gathered = detail::gather_trace(comm, *ring, {0, 500, -500}, own);
        if (comm.rank() == 0) traces = own;
        return gathered;
    });
    REQUIRE_MESSAGE(done, done.error().message());
    REQUIRE(traces.size() == 3);
    CHECK(traces[1].events.size() == 2);
    CHECK(traces[1].events[0].begin == 500);
    CHECK(traces[2].events[0].begin == 1501);
    CHECK(traces[2].dropped == 1);
    CHECK(traces[2].events[1].name == "receive");
    CHECK(traces[2].events[1].parameter == "lm_head.weight");
    CHECK((traces[2].events[1].layer == 2 && traces[2].events[1].bytes == 12 && traces[2].events[1].message == 2));
    CHECK(traces[2].events[1].track == TraceTrack::communication);
}

TEST_CASE("trace_json: an arrow goes from each send to its receive, and none to a receive whose send was dropped") {
    auto const message = [](std::string_view name, std::int64_t begin, std::int32_t peer, std::int64_t number) {
        TraceEvent event{begin, begin + 2000, TraceTrack::communication, name, {}};
        event.peer = peer;
        event.message = number;
        return event;
    };
    std::vector<RankTrace> traces(2);
    traces[0].host = "a \"host\"";
    traces[0].events = {message("send", 1'000'000, 1, 1)};
    traces[1].events = {message("receive", 990'000, 0, 0), message("receive", 1'001'000, 0, 1)};
    traces[1].dropped = 7;
    auto const text = trace_json(traces);
    auto const document = parse_json(text);
    REQUIRE(document);
    auto const count = [&](std::string const& word) {
        std::size_t found = 0;
        for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
        return found;
    };
    CHECK(count(R"("ph":"s")") == 1);
    CHECK(count(R"("ph":"f")") == 1);
    CHECK(count(R"("ph":"X")") == 3);
    CHECK(count(R"("ph":"M")") == 8);
    CHECK(count(R"("dropped_events":7)") == 1);
    // Microseconds from the first event on.
    CHECK_MESSAGE(count(R"("ts":10.0,"dur":2.0,"args":{"peer":1}})") == 1, text);
    CHECK(trace_json({}).find(R"("traceEvents":[])") != std::string::npos);
}

}  // namespace
