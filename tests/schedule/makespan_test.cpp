// SPDX-License-Identifier: Apache-2.0
#include <shardwise/schedule/gpipe.hpp>
#include <shardwise/schedule/interleaved.hpp>
#include <shardwise/schedule/makespan.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/pipeline_time.hpp>
#include <shardwise/schedule/zero_bubble.hpp>
#include <shardwise/schedule/zero_bubble_v.hpp>

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

using namespace shardwise;

namespace {

/// Forward 1, backward 2 in one part; 1 and 1 in two.
PipelineTimes const whole{.forward = 1.0, .backward = 2.0};
PipelineTimes const halves{.forward = 1.0, .backward = 1.0, .weights = 1.0};

/// True where every rank has each pass of each micro-batch and chunk once.
bool is_complete(PipelineSchedule const& schedule) {
    for (auto const& rank : schedule.ranks) {
        std::set<std::tuple<int, int, int>> seen;
        for (auto const& slot : rank) seen.insert({static_cast<int>(slot.work), slot.micro_batch, slot.chunk});
        auto const kinds = schedule.is_split ? 3 : 2;
        if (static_cast<std::int64_t>(seen.size()) != kinds * schedule.micro_batches * schedule.chunks) return false;
        if (seen.size() != rank.size()) return false;
    }
    return static_cast<std::int64_t>(schedule.ranks.size()) == schedule.stages;
}

}  // namespace

// Narayanan et al., SC21 (arXiv 2104.04473), section 2.2: bubble (p - 1) / m of the ideal time
TEST_CASE("GPipe and 1F1B: four stages and eight micro-batches take 33") {
    CHECK(*makespan(gpipe_schedule(4, 8), whole) == 33.0);
    CHECK(*makespan(one_forward_one_backward(4, 8), whole) == 33.0);
    for (std::int64_t p = 1; p <= 6; ++p) {
        for (std::int64_t m = 1; m <= 9; ++m) {
            auto const expected = 3.0 * static_cast<double>(m + p - 1);
            CHECK(*makespan(gpipe_schedule(p, m), whole) == expected);
            CHECK(*makespan(one_forward_one_backward(p, m), whole) == expected);
            CHECK(is_complete(gpipe_schedule(p, m)));
            CHECK(is_complete(one_forward_one_backward(p, m)));
        }
    }
}

TEST_CASE("GPipe keeps every micro-batch, 1F1B p - r of them") {
    for (std::int64_t r = 0; r < 4; ++r) {
        CHECK(max_in_flight(gpipe_schedule(4, 8), r) == 8);
        CHECK(max_in_flight(one_forward_one_backward(4, 8), r) == 4 - r);
        CHECK(warm_up(4, 8, r) == 3 - r);
    }
    CHECK(max_in_flight(one_forward_one_backward(8, 2), 0) == 2);
}

TEST_CASE("interleaved: the bubble is divided by the chunks, 57 over 48") {
    auto const schedule = *interleaved_schedule(4, 2, 8);
    CHECK(*makespan(schedule, whole) == 57.0);
    CHECK(is_complete(schedule));
    for (std::int64_t p = 1; p <= 5; ++p) {
        for (std::int64_t v = 1; v <= 3; ++v) {
            for (std::int64_t rounds = 1; rounds <= 3; ++rounds) {
                auto const m = rounds * p;
                auto const table = *interleaved_schedule(p, v, m);
                CHECK(is_complete(table));
                CHECK(*makespan(table, whole) == 3.0 * static_cast<double>(v * m + p - 1));
            }
        }
    }
}

TEST_CASE("interleaved: warm-up is 2 (p - 1 - r) and a group for each further chunk") {
    CHECK(interleaved_warm_up(4, 2, 8, 0) == 10);
    CHECK(interleaved_warm_up(4, 2, 8, 3) == 4);
    CHECK(interleaved_warm_up(4, 2, 4, 0) == 8);
    CHECK(max_in_flight(*interleaved_schedule(4, 2, 8), 0) == 11);
}

TEST_CASE(
    "interleaved: refuses micro-batches that are no multiple of the stages, and numbers below one, each by its name") {
    auto const refused = interleaved_schedule(4, 2, 6);
    REQUIRE(!refused);
    CHECK(refused.error().code() == ErrorCode::invalid_argument);
    CHECK(refused.error().message() ==
          "interleaved schedule: micro-batches: are no multiple of the pipeline's stages (got 6, expected a multiple "
          "of 4); cut the "
          "batch into a multiple of the stages");
    auto const less_than_one = [](std::string const& what, int got) {
        return "interleaved schedule: " + what + ": are less than one (got " + std::to_string(got) +
               ", expected at least 1)";
    };
    CHECK(interleaved_schedule(4, 2, 0).error().message() == less_than_one("micro-batches", 0));
    CHECK(interleaved_schedule(0, 2, 4).error().message() == less_than_one("stages", 0));
    CHECK(interleaved_schedule(4, -1, 4).error().message() == less_than_one("chunks", -1));
}

// Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241)
TEST_CASE("zero bubble: a third of 1F1B's bubble at the same memory, 27 over 24") {
    auto const schedule = zero_bubble_schedule(4, 8);
    CHECK(*makespan(schedule, halves) == 27.0);
    for (std::int64_t r = 0; r < 4; ++r) {
        CHECK(max_in_flight(schedule, r) <= 4);
        // Rank r puts the weights' gradients r micro-batches off.
        CHECK(max_waiting(schedule, r) == r + 1);
        CHECK(max_waiting(one_forward_one_backward(4, 8), r) == 0);
    }
    for (std::int64_t p = 1; p <= 6; ++p) {
        for (std::int64_t m = p; m <= 9; ++m) {
            CHECK(*makespan(zero_bubble_schedule(p, m), halves) == static_cast<double>(3 * m + p - 1));
            CHECK(is_complete(zero_bubble_schedule(p, m)));
        }
    }
    CHECK(makespan(zero_bubble_schedule(4, 2), halves));
}

TEST_CASE("zero bubble in a V: 51 over 48 for four stages and eight micro-batches") {
    auto const schedule = zero_bubble_v_schedule(4, 8);
    CHECK(*makespan(schedule, halves) == 51.0);
    CHECK(is_complete(schedule));
    for (std::int64_t r = 0; r < 4; ++r) CHECK(max_in_flight(schedule, r) <= 8);
    CHECK(schedule.virtual_stage(0, 0) == 0);
    CHECK(schedule.virtual_stage(0, 1) == 7);
    CHECK(schedule.virtual_stage(3, 1) == 4);
    for (std::int64_t p = 1; p <= 6; ++p) {
        for (std::int64_t m = 1; m <= 14; ++m) CHECK(is_complete(zero_bubble_v_schedule(p, m)));
    }
    for (std::int64_t p = 1; p <= 12; ++p) {
        for (auto const m : {2 * p, 2 * p + 1, 3 * p + 1}) {
            CAPTURE(p);
            CAPTURE(m);
            auto const table = zero_bubble_v_schedule(p, m);
            CHECK(*makespan(table, halves) == static_cast<double>(6 * m + p - 1));
            for (std::int64_t r = 0; r < p; ++r) CHECK(max_in_flight(table, r) <= 2 * p);
        }
    }
}

TEST_CASE("makespan: a table that waits for itself is refused") {
    auto schedule = one_forward_one_backward(2, 2);
    auto& rank = schedule.ranks[1];
    std::swap(rank[0], rank[1]);
    auto const stuck = makespan(schedule, whole);
    REQUIRE(!stuck);
    CHECK(stuck.error().code() == ErrorCode::invalid_argument);
    schedule.ranks[1][0] = {PipelineWork::forward, 7, 0};
    CHECK(!makespan(schedule, whole));
    schedule.ranks[1][0] = {PipelineWork::forward, 0, 3};
    CHECK(!makespan(schedule, whole));
}

TEST_CASE("pipeline time: the formula is the table's makespan where stages are alike") {
    for (std::int64_t p = 1; p <= 5; ++p) {
        for (std::int64_t v = 1; v <= 3; ++v) {
            auto const m = 2 * p;
            // A stage of v chunks, each of forward 1 and backward 2.
            auto const stage = 3.0 * static_cast<double>(v);
            CHECK(filled_once(stage * static_cast<double>(p), stage, static_cast<double>(m), static_cast<double>(v)) ==
                  doctest::Approx(*makespan(*interleaved_schedule(p, v, m), whole)));
        }
    }
    CHECK(kept_full(40.0, 10.0, 2.0) == 40.0);
    CHECK(kept_full(40.0, 10.0, 8.0) == 80.0);
}

TEST_CASE("pipeline time: never less than the slowest stage's work, and close to the table where stages differ") {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> scale(0.7, 1.3);
    for (int round = 0; round < 50; ++round) {
        std::vector<PipelineTimes> times(4);
        double sum = 0.0;
        double slowest = 0.0;
        for (auto& stage : times) {
            auto const factor = scale(random);
            stage = {.forward = factor, .backward = 2.0 * factor};
            sum += 3.0 * factor;
            slowest = std::max(slowest, 3.0 * factor);
        }
        auto const table = *makespan(one_forward_one_backward(4, 12), times);
        auto const formula = filled_once(sum, slowest, 12.0);
        CHECK(table >= 12.0 * slowest);
        CHECK(formula == doctest::Approx(table).epsilon(0.1));
    }
}
