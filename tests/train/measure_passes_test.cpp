// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/detail/measure_passes.hpp>

#include <doctest/doctest.h>

#include "ranks.hpp"

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;
using namespace std::chrono_literals;

TEST_CASE("measure_passes: all ranks get one time, that of the slowest rank in the best pass, the first aside") {
    // What each rank takes for its passes, in milliseconds: the slowest take 0, 50, 300 and 200.
    std::vector<std::vector<int>> const passes{{0, 50, 0, 200}, {0, 0, 300, 0}, {0, 10, 5, 0}};
    for (std::size_t const ranks : {std::size_t{2}, std::size_t{3}}) {
        CAPTURE(ranks);
        auto const times = on_threads(static_cast<std::int32_t>(ranks), [&](Threads& comm) {
            auto const& own = passes[static_cast<std::size_t>(comm.rank())];
            std::size_t call = 0;
            auto const time = detail::measure_passes(comm, 20s, [&](Deadline) -> Result<> {
                std::this_thread::sleep_for(std::chrono::milliseconds(own.at(call++)));
                return {};
            });
            CHECK(call == own.size());
            return time ? *time : 0ns;
        });
        for (auto const time : times) CHECK(time == times.front());
        CHECK(times.front() >= 50ms);
        CHECK(times.front() < 200ms);
    }
}

TEST_CASE("measure_passes: a pass that fails ends it") {
    auto const codes = on_threads(1, [](Threads& comm) {
        int calls = 0;
        auto const time = detail::measure_passes(comm, 20s, [&](Deadline) -> Result<> {
            if (++calls == 2) return Error{ErrorCode::file_unwritable};
            return {};
        });
        CHECK(calls == 2);
        return time ? ErrorCode::invalid_argument : time.error().code();
    });
    CHECK(codes.front() == ErrorCode::file_unwritable);
}
