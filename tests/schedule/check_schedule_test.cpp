// SPDX-License-Identifier: Apache-2.0
#include <shardwise/schedule/check_schedule.hpp>
#include <shardwise/schedule/forward_only.hpp>
#include <shardwise/schedule/gpipe.hpp>
#include <shardwise/schedule/interleaved.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/zero_bubble.hpp>
#include <shardwise/schedule/zero_bubble_v.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace {

using namespace shardwise;

std::string refusal(PipelineSchedule const& schedule) {
    auto const checked = check_schedule(schedule);
    if (checked) return "accepted";
    CHECK(checked.error().code() == ErrorCode::invalid_argument);
    return checked.error().message();
}

bool has(std::string const& text, char const* part) {
    return text.find(part) != std::string::npos;
}

static_assert(check_schedule(one_forward_one_backward(3, 4)));

}  // namespace

TEST_CASE("check_schedule: every table of ours has each pass once") {
    for (std::int64_t stages = 1; stages <= 5; ++stages) {
        for (std::int64_t const micro_batches : {1, 3, 10}) {
            CHECK(check_schedule(forward_only(stages, micro_batches)));
            CHECK(check_schedule(gpipe_schedule(stages, micro_batches)));
            CHECK(check_schedule(one_forward_one_backward(stages, micro_batches)));
            CHECK(check_schedule(interleaved_schedule(stages, 3, stages * micro_batches).value()));
            CHECK(check_schedule(zero_bubble_schedule(stages, micro_batches)));
            CHECK(check_schedule(zero_bubble_v_schedule(stages, micro_batches)));
        }
    }
}

TEST_CASE("check_schedule: a pass that is missing, doubled or of nothing that there is, is named by its number") {
    auto const whole = one_forward_one_backward(2, 3);
    auto table = whole;
    table.ranks[1].pop_back();
    CHECK(has(refusal(table), "too few or too many passes of a rank (got 5, expected 6)"));
    table = whole;
    table.ranks[0][1] = table.ranks[0][0];
    CHECK(has(refusal(table), "a micro-batch twice (got 0)"));
    table = whole;
    table.ranks[0][2].micro_batch = 3;
    CHECK(has(refusal(table), "a micro-batch that is none (got 3, expected 0 to 2)"));
    table.ranks[0][2].micro_batch = -1;
    CHECK(has(refusal(table), "a micro-batch that is none (got -1"));
    table = whole;
    table.ranks[1][4].chunk = -1;
    CHECK(has(refusal(table), "a chunk that is none (got -1, expected 0 to 0)"));
    table.ranks[1][4].chunk = 1;
    CHECK(has(refusal(table), "a chunk that is none (got 1, expected 0 to 0)"));
    table = whole;
    table.ranks[1][5].work = PipelineWork::weights;
    CHECK(has(refusal(table), "a kind that its first row has not (got 2)"));
    table = whole;
    table.ranks.pop_back();
    CHECK(has(refusal(table), "a row for each stage (got 1, expected 2)"));
    // Ranks of which only some go back.
    table = forward_only(2, 3);
    table.ranks[1] = whole.ranks[1];
    CHECK(has(refusal(table), "too few or too many passes of a rank (got 6, expected 3)"));
    CHECK(has(refusal(PipelineSchedule{.stages = 0}), "no stages"));
    table = forward_only(1, 1);
    table.micro_batches = std::numeric_limits<std::int64_t>::max();
    CHECK(has(refusal(table), "too few or too many passes of a rank (got 1, expected 9223372036854775807)"));
    table.chunks = 2;
    CHECK(has(refusal(table), "more passes than can be counted (got 9223372036854775807"));
    for (std::int64_t const none : {0, -1}) {
        CHECK(has(refusal(forward_only(none, 3)), "no stages"));
        CHECK(has(refusal(gpipe_schedule(none, 3)), "no stages"));
        CHECK(has(refusal(one_forward_one_backward(none, 3)), "no stages"));
        CHECK(has(refusal(zero_bubble_schedule(none, 3)), "no stages"));
        CHECK(has(refusal(zero_bubble_v_schedule(none, 3)), "no stages"));
        CHECK_FALSE(interleaved_schedule(none, 2, 3));
        CHECK(has(refusal(gpipe_schedule(3, none)), "no stages, micro-batches or chunks"));
        CHECK(has(refusal(zero_bubble_v_schedule(3, none)), "no stages, micro-batches or chunks"));
    }
}
