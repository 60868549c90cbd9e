// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/any_communicator.hpp>
#include <shardwise/comm/detail/rank_names.hpp>
#include <shardwise/comm/threads.hpp>

#include <doctest/doctest.h>

#include "../comm/names_of_parts.hpp"
#include "../comm/shared_memory_ranks.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::check_names_of_parts;
using shardwise::testing::come_late_to_part;
using shardwise::testing::leave_part;
using shardwise::testing::shared_memory::Body;
using shardwise::testing::shared_memory::run_ranks;

namespace {

std::string words_of(Result<> const& result) {
    return result ? "" : result.error().message();
}

}  // namespace

TEST_CASE("Ranks of a part are named by their numbers there and, where these differ, by those in the whole") {
    detail::RankNames const whole;
    CHECK(whole.name(3) == "rank 3");
    auto const part = whole.of_part({1, 3, 4});
    CHECK(part.number(0) == "0 (of all: rank 1)");
    CHECK(part.name(2) == "rank 2 (of all: rank 4)");
    // Neither is the part of a part numbered by the part in between.
    auto const pair = part.of_part({0, 2});
    CHECK(pair.name(1) == "rank 1 (of all: rank 4)");
    CHECK(whole.of_part({0, 2}).name(0) == "rank 0");
    std::vector<std::int32_t> const list{0, 1};
    CHECK(pair.in_whole(list) == " (of all: rank 1, 4)");
    CHECK(whole.in_whole(list).empty());
    CHECK(whole.of_part({0, 2}).in_whole(list) == " (of all: rank 0, 2)");
    CHECK(whole.list(list) == "0, 1");
    CHECK(pair.list(list) == "0, 1 (of all: rank 1, 4)");
    CHECK(pair.list(list, [](std::int32_t rank) { return rank == 0 ? " (late)" : ""; }) ==
          "0 (late), 1 (of all: rank 1, 4)");
}

TEST_CASE("Threads: every error of a part names its ranks by their numbers in the whole, too") {
    CHECK(words_of(run_threads(4, [](Threads& comm) { return check_names_of_parts(comm); })) == "");
    for (bool const is_for_message : {false, true})
        CHECK(words_of(run_threads(4, [=](Threads& comm) { return leave_part(comm, is_for_message); })) == "");
    auto const late = [](Threads& comm) { return come_late_to_part(comm, 3s); };
    CHECK(words_of(run_threads(6, late, {.timeout = 500ms})) == "");
}

TEST_CASE("AnyCommunicator: errors of a part name its ranks as those of the communicator that it is") {
    auto const check = [](Threads& comm) -> Result<> {
        AnyCommunicator<Threads> any(std::move(comm));
        return check_names_of_parts(any);
    };
    CHECK(words_of(run_threads(4, check)) == "");
}

TEST_CASE("SharedMemory: every error of a part names its ranks by their numbers in the whole, too") {
    Body const check = [](SharedMemory& comm) -> Result<> {
        auto const checked = check_names_of_parts(comm);
        return checked ? leave_part(comm) : checked;
    };
    for (auto const& outcome : run_ranks({check, check, check, check})) {
        CAPTURE(outcome.message);
        CHECK(outcome.succeeded);
    }
}
