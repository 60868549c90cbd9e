// SPDX-License-Identifier: Apache-2.0
#include <shardwise/schedule/forward_only.hpp>
#include <shardwise/schedule/gpipe.hpp>
#include <shardwise/schedule/interleaved.hpp>
#include <shardwise/schedule/makespan.hpp>
#include <shardwise/schedule/message_queues.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/zero_bubble.hpp>
#include <shardwise/schedule/zero_bubble_v.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace shardwise;

struct Named {
    std::string name;
    PipelineSchedule schedule;
};

std::vector<Named> tables(std::int64_t stages, std::int64_t micro_batches) {
    std::vector<Named> all{
        {"forward only", forward_only(stages, micro_batches)},
        {"GPipe", gpipe_schedule(stages, micro_batches)},
        {"1F1B", one_forward_one_backward(stages, micro_batches)},
    };
    if (auto table = interleaved_schedule(stages, 2, micro_batches)) all.push_back({"interleaved", *table});
    all.push_back({"ZB1P", zero_bubble_schedule(stages, micro_batches)});
    all.push_back({"ZB-V", zero_bubble_v_schedule(stages, micro_batches)});
    return all;
}

TEST_CASE("rank_of_virtual_stage: is the inverse of the table's virtual stages") {
    for (auto const& named : tables(4, 8)) {
        auto const& schedule = named.schedule;
        CAPTURE(named.name);
        for (std::int64_t rank = 0; rank < schedule.stages; ++rank) {
            for (std::int64_t chunk = 0; chunk < schedule.chunks; ++chunk)
                CHECK(rank_of_virtual_stage(schedule, schedule.virtual_stage(rank, chunk)) == rank);
        }
    }
}

TEST_CASE("messages: what one rank makes another needs, each once") {
    for (std::int64_t stages = 1; stages <= 5; ++stages) {
        for (auto const& named : tables(stages, 6)) {
            auto const& schedule = named.schedule;
            CAPTURE(named.name);
            CAPTURE(stages);
            std::vector<PipelineMessage> made;
            std::vector<PipelineMessage> needed;
            for (std::int64_t rank = 0; rank < stages; ++rank) {
                for (auto const& slot : schedule.ranks[static_cast<std::size_t>(rank)]) {
                    if (auto const message = message_made(schedule, rank, slot)) made.push_back(*message);
                    if (auto const message = message_needed(schedule, rank, slot)) {
                        CHECK(rank_of_virtual_stage(schedule, message->virtual_stage) == rank);
                        needed.push_back(*message);
                    }
                }
            }
            auto const passes = is_training(schedule) ? 2 : 1;
            CHECK(static_cast<std::int64_t>(made.size()) == passes * (stages * schedule.chunks - 1) * 6);
            REQUIRE(made.size() == needed.size());
            for (auto const& message : needed) {
                std::int64_t count = 0;
                for (auto const& other : made) count += other == message ? 1 : 0;
                CHECK(count == 1);
            }
        }
    }
}

TEST_CASE("places_needed: 1F1B keeps an input per micro-batch in flight and one gradient, GPipe all inputs") {
    auto const one = one_forward_one_backward(4, 8);
    auto const all = gpipe_schedule(4, 8);
    auto const pass = forward_only(4, 8);
    for (std::int64_t rank = 0; rank < 4; ++rank) {
        CAPTURE(rank);
        auto const has_inputs = rank > 0 ? 1 : 0;
        auto const has_gradients = rank < 3 ? 1 : 0;
        CHECK(*places_needed(one, rank) == has_inputs * max_in_flight(one, rank) + has_gradients);
        CHECK(*places_needed(all, rank) == has_inputs * 8 + has_gradients);
        CHECK(*places_needed(pass, rank) == has_inputs);
    }
}

TEST_CASE(
    "queue_needed: every table completes with few messages waiting to be sent, and one fewer comes to a standstill") {
    for (std::int64_t stages = 2; stages <= 6; ++stages) {
        for (std::int64_t micro_batches : {1, 2, 3, 6, 12}) {
            for (auto const& named : tables(stages, micro_batches)) {
                auto const& schedule = named.schedule;
                CAPTURE(named.name);
                CAPTURE(stages);
                CAPTURE(micro_batches);
                auto const length = queue_needed(schedule);
                REQUIRE(length);
                CHECK(*length <= stages + 2);
                CHECK(detail::QueuedRun(schedule, *length).completes());
                // A longer queue never hurts.
                CHECK(detail::QueuedRun(schedule, *length + 1).completes());
                if (*length > 1) CHECK_FALSE(detail::QueuedRun(schedule, *length - 1).completes());
            }
        }
    }
}

TEST_CASE("messages: a table that waits for what never comes is refused") {
    auto broken = one_forward_one_backward(2, 3);
    broken.ranks[0].pop_back();
    broken.ranks[0].erase(broken.ranks[0].begin());
    CHECK_FALSE(places_needed(broken, 1));
    CHECK_FALSE(queue_needed(broken));
}

}  // namespace
