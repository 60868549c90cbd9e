// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/trace_ring.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace shardwise;

/// Lets the clock go on by more than a wait that is told.
void pass_time() {
    auto const begin = TraceRing::now();
    while (TraceRing::now() < begin + 3 * TraceRing::shortest_wait) {
    }
}

TEST_CASE("TraceRing: the oldest events give way, and are counted") {
    auto ring = TraceRing::create(4).value();
    for (std::int64_t i = 0; i < 10; ++i) ring.add({i, i + 1, TraceTrack::compute, "add", {}});
    CHECK(ring.dropped() == 6);
    auto const events = ring.events();
    REQUIRE(events.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(events[i].begin == static_cast<std::int64_t>(i) + 6);
    CHECK(TraceRing::create(3).value().events().empty());
    CHECK_FALSE(TraceRing::create(0));
    CHECK_FALSE(TraceRing::create((std::int64_t{1} << 28) + 1));
}

TEST_CASE("TraceRing: an operation is cut in two around communication, and a step's events are all of its time") {
    auto ring = TraceRing::create(64).value();
    Tracer const tracer(ring);
    tracer([](TraceRing& to) {
        to.begin_step();
        to.begin_operation("linear", "o_proj.weight", 3);
        pass_time();
        to.begin_call();
        auto const wait = TraceRing::now();
        pass_time();
        to.end_wait(wait);
        to.end_call("all_reduce", 64);
        pass_time();
        to.end_operation(128);
        pass_time();
        to.end_gap("fetch weights");
        to.begin_operation("sample");
        pass_time();
        to.end_operation();
        pass_time();
        to.begin_call();
        to.end_call("broadcast", 4);
        to.end_step(1, 1);
    });
    std::string names;
    std::int64_t sum = 0;
    std::int64_t step = 0;
    for (auto const& event : ring.events()) {
        names += std::string(event.name) + " " + std::string(name_of(event.track)) + "\n";
        bool const is_step = event.name == "decode";
        if (is_step) step = event.end - event.begin;
        // A wait for other ranks is a part of their call.
        if (!is_step && event.name != "wait") sum += event.end - event.begin;
        if (event.name == "all_reduce") CHECK((event.layer == 3 && event.bytes == 64));
        if (event.name == "wait") CHECK((event.layer == 3 && event.parameter == "o_proj.weight"));
    }
    CHECK(names ==
          "decode compute\nlinear compute\nall_reduce communication\nwait wait\nlinear compute\nfetch weights wait\n"
          "sample compute\nother compute\nbroadcast communication\n");
    CHECK(static_cast<double>(sum) == doctest::Approx(static_cast<double>(step)).epsilon(0.05));
}

TEST_CASE(
    "TraceRing: waits below a microsecond and calls that exchange nothing are left out; messages are numbered by way") {
    auto ring = TraceRing::create(8).value();
    ring.begin_call();
    ring.end_wait(TraceRing::now());
    ring.end_call({}, 0);
    CHECK(ring.events().empty());
    CHECK(ring.next_message(2, true) == 0);
    CHECK(ring.next_message(2, true) == 1);
    CHECK(ring.next_message(2, false) == 0);
    CHECK(ring.next_message(0, true) == 0);
    bool is_told = false;
    Tracer{}([&](TraceRing&) { is_told = true; });
    CHECK_FALSE(is_told);
    CHECK_FALSE(Tracer{}.is_on());
}

}  // namespace
