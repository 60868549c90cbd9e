// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include <doctest/doctest.h>

#include "formula_llama.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

bool is_step(TraceEvent const& event) {
    return event.name == "prefill" || event.name == "decode";
}

/// Events of a track that overlap another one without lying in it; events come by their beginning, the longest first.
int overlaps(RankTrace const& trace, TraceTrack track) {
    std::vector<std::int64_t> open;
    int found = 0;
    for (auto const& event : trace.events) {
        if (event.track != track) continue;
        while (!open.empty() && open.back() <= event.begin) open.pop_back();
        if (!open.empty() && event.end > open.back()) ++found;
        open.push_back(event.end);
    }
    return found;
}

/// What the parts of a step take is its time, within 5 %; the number of steps.
int check_sums(RankTrace const& trace) {
    int steps = 0;
    for (auto const& step : trace.events) {
        if (!is_step(step)) continue;
        ++steps;
        std::int64_t sum = 0;
        for (auto const& event : trace.events) {
            bool const is_part =
                event.begin >= step.begin && event.end <= step.end && !is_step(event) && event.name != "wait";
            if (is_part) sum += event.end - event.begin;
        }
        CHECK(static_cast<double>(sum) == doctest::Approx(static_cast<double>(step.end - step.begin)).epsilon(0.05));
    }
    return steps;
}

TEST_CASE("run_on_threads: a trace nests, has a send for each receive, adds up to its steps, and changes no token") {
    FormulaLlama const llama;
    std::vector<GenerationRequest> const requests{{.prompt = {5, 9, 2}, .max_new_tokens = 5}};
    auto const run = [&](std::int32_t tp, std::int32_t pp, std::int64_t events) {
        RunOptions options;
        options.tp = tp;
        options.pp = pp;
        options.threads = 1;
        options.is_deterministic = true;
        options.trace_events = events;
        return run_on_threads(llama.source, llama.checkpoint->model, requests, options);
    };
    auto const plain = run(1, 1, 0);
    REQUIRE(plain);
    CHECK(plain->traces.empty());
    for (auto const& [tp, pp] : std::vector<std::pair<std::int32_t, std::int32_t>>{{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
        auto const traced = run(tp, pp, 10000);
        REQUIRE_MESSAGE(traced, traced.error().message());
        CHECK(traced->generations[0].tokens == plain->generations[0].tokens);
        REQUIRE(traced->traces.size() == static_cast<std::size_t>(tp * pp));
        std::map<std::pair<std::int64_t, std::int64_t>, std::vector<TraceEvent>> sends;
        std::map<std::pair<std::int64_t, std::int64_t>, std::vector<TraceEvent>> receives;
        for (std::size_t i = 0; i < traced->traces.size(); ++i) {
            auto const& trace = traced->traces[i];
            auto const rank = static_cast<std::int64_t>(i);
            CHECK(trace.dropped == 0);
            CHECK(trace.clock_offset == 0);
            for (auto const track : {TraceTrack::compute, TraceTrack::communication, TraceTrack::wait})
                CHECK(overlaps(trace, track) == 0);
            CHECK(check_sums(trace) == 5);
            bool has_query = false;
            for (auto const& event : trace.events) {
                if (event.name == "send") sends[{rank, event.peer}].push_back(event);
                if (event.name == "receive") receives[{event.peer, rank}].push_back(event);
                has_query = has_query || (event.name == "linear" && event.layer >= 0 && event.bytes > 0 &&
                                          event.parameter.find("q_proj") != std::string_view::npos);
            }
            CHECK(has_query);
        }
        std::size_t received = 0;
        for (auto const& [way, all] : receives) {
            auto const& sent = sends[way];
            REQUIRE(sent.size() == all.size());
            for (std::size_t i = 0; i < all.size(); ++i) {
                CHECK(sent[i].message == all[i].message);
                CHECK(sent[i].bytes == all[i].bytes);
                CHECK(sent[i].begin <= all[i].end);
            }
            received += all.size();
        }
        // One hidden state a step from each rank of a stage to its neighbour in the next.
        CHECK(received == static_cast<std::size_t>(pp > 1 ? 5 * tp : 0));
    }
    auto const refused = run(2, 1, -1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::invalid_argument);
}

TEST_CASE("run_on_threads: the report says what each rank still holds, which is no more than its peak") {
    FormulaLlama const llama;
    RunOptions options;
    options.tp = 2;
    auto const ran =
        run_on_threads(llama.source, llama.checkpoint->model, {{.prompt = {5}, .max_new_tokens = 2}}, options);
    REQUIRE(ran);
    for (auto const& rank : ran->ranks) {
        CHECK(rank.held >= rank.weights + rank.cache + rank.activations);
        CHECK(rank.held <= rank.peak);
    }
}

TEST_CASE("Session: give_back frees the pages of the kept sequence, and later requests are answered as before") {
    FormulaLlama const llama;
    auto const& model = llama.checkpoint->model;
    auto const parameters = StoredParameters::open(llama.source, model);
    REQUIRE(parameters);
    ExecutorLimits const limits{1, 32, 32, 0, Dtype::f32};
    auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Deterministic>::create(context, model, *parameters, {1, 0}, limits);
        if (!executor) return executor.error();
        auto session = Session<Host, Deterministic, Threads>::create(context, *executor, limits, comm, stream);
        if (!session) return session.error();
        auto const pages = executor->cache().free_pages();
        CHECK(session->give_back() == 0);
        session->keep_last(true);
        std::vector<std::vector<std::int32_t>> tokens;
        for (int i = 0; i < 2; ++i) {
            if (auto const added = session->add({.prompt = {5, 9, 2}, .max_new_tokens = 4}); !added)
                return added.error();
            auto ended = session->run(Deadline::after(std::chrono::seconds(30)));
            if (!ended) return ended.error();
            tokens.push_back(ended->front().tokens);
            CHECK(executor->cache().free_pages() < pages);
            CHECK(session->give_back() > 0);
            CHECK(executor->cache().free_pages() == pages);
        }
        CHECK(tokens[0] == tokens[1]);
        return {};
    });
    REQUIRE_MESSAGE(done, done.error().message());
}

}  // namespace
