// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/slow_ranks.hpp>

#include <doctest/doctest.h>

#include "curve_data.hpp"
#include "ranks.hpp"

#include <cstdint>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE(
    "SlowRanks: a rank behind twice the median in any ten steps in a row is named to all, one that was so in nine is "
    "not") {
    for (std::int32_t const ranks : {1, 2, 3, 4}) {
        CAPTURE(ranks);
        auto const found = on_threads(ranks, [&](Threads& comm) -> std::vector<std::int32_t> {
            SlowRanks watch;
            std::vector<std::int32_t> out;
            // The last one is slow in ten steps that two comparisons share, in nine, and in all from the 36th on.
            for (int step = 1; step <= 60; ++step) {
                bool const is_slow = (step >= 6 && step <= 15) || (step >= 21 && step <= 29) || step >= 36;
                bool const is_behind = comm.rank() == ranks - 1 && is_slow;
                auto const slow = watch.take(comm, is_behind ? 0.0021 : 0.001);
                REQUIRE(slow);
                for (auto const rank : *slow) out.push_back(100 * step + rank);
            }
            return out;
        });
        std::vector<std::int32_t> expected;
        if (ranks > 1) expected = {2000 + ranks - 1, 5000 + ranks - 1, 6000 + ranks - 1};
        for (auto const& one : found) CHECK(one == expected);
    }
}

TEST_CASE("SlowRanks: stages of unequal work are no slow ranks; one that is slow in its stage, or for its work, is") {
    // Two stages of two ranks each, the second with three times the work; and three stages of one rank.
    List<RankWork> const pairs{{0, 100.0}, {0, 100.0}, {1, 300.0}, {1, 300.0}};
    List<RankWork> const single{{0, 100.0}, {1, 300.0}, {2, 100.0}};
    struct Case {
        List<RankWork> const* works;
        std::vector<double> seconds;
        std::vector<std::int32_t> slow;
    };
    for (auto const& each :
         {Case{&pairs, {0.001, 0.001, 0.003, 0.003}, {}}, Case{&pairs, {0.001, 0.0025, 0.003, 0.003}, {1}},
          Case{&pairs, {0.001, 0.001, 0.003, 0.007}, {3}}, Case{&single, {0.001, 0.003, 0.001}, {}},
          Case{&single, {0.001, 0.003, 0.0025}, {2}}, Case{&single, {0.001, 0.007, 0.001}, {1}}}) {
        auto const ranks = static_cast<std::int32_t>(each.works->size());
        auto const found = on_threads(ranks, [&](Threads& comm) -> std::vector<std::int32_t> {
            SlowRanks watch(*each.works);
            std::vector<std::int32_t> out;
            for (int step = 0; step < 10; ++step) {
                auto const slow = watch.take(comm, each.seconds[static_cast<std::size_t>(comm.rank())]);
                REQUIRE(slow);
                for (auto const rank : *slow) out.push_back(rank);
            }
            return out;
        });
        for (auto const& one : found) CHECK(one == each.slow);
    }
}

TEST_CASE("work_of: layers and head count where they are, the embedding's rows do not") {
    TrainedModel const whole(golden_config("llama_tied"));
    auto const all = work_of(whole.program);
    std::vector<RankWork> stages;
    for (std::int64_t stage = 0; stage < 2; ++stage)
        stages.push_back(
            work_of(TrainedModel(golden_config("llama_tied"), 1, {{}, {.stages = 2, .stage = stage}}).program));
    CHECK(stages[0].kind == 0);
    CHECK(stages[1].kind == 1);
    CHECK(stages[0].amount + stages[1].amount == all.amount + 1.0);
    CHECK(stages[1].amount - stages[0].amount ==
          static_cast<double>(whole.model().config.vocab_size * whole.model().config.hidden_size));
}
