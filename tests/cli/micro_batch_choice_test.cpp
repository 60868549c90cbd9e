// SPDX-License-Identifier: Apache-2.0
#include "micro_batch_choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace shardwise;
using namespace shardwise::cli;

namespace {

using Sizes = std::vector<std::int64_t>;
using std::chrono::nanoseconds;

}  // namespace

TEST_CASE("micro_batches_to_measure: powers of two and the largest") {
    CHECK(micro_batches_to_measure(1) == Sizes{1});
    CHECK(micro_batches_to_measure(2) == Sizes{1, 2});
    CHECK(micro_batches_to_measure(3) == Sizes{1, 2, 3});
    CHECK(micro_batches_to_measure(8) == Sizes{1, 2, 4, 8});
    CHECK(micro_batches_to_measure(9) == Sizes{1, 2, 4, 8, 9});
}

TEST_CASE("fastest_micro_batch: the size with the least time in any order of times, of equal ones the first") {
    auto const sizes = micro_batches_to_measure(12);
    REQUIRE(sizes.size() == 5);
    // Two of five are the same.
    std::vector<std::int64_t> times{10, 20, 20, 30, 40};
    int orders = 0;
    do {
        Sizes measured;
        auto const best = fastest_micro_batch(sizes, [&](std::int64_t size) -> Result<nanoseconds> {
            measured.push_back(size);
            return nanoseconds(times[measured.size() - 1]);
        });
        REQUIRE(best);
        auto const least = std::min_element(times.begin(), times.end()) - times.begin();
        CHECK(*best == sizes[static_cast<std::size_t>(least)]);
        CHECK(measured == sizes);
        ++orders;
    } while (std::next_permutation(times.begin(), times.end()));
    CHECK(orders == 60);
    for (auto const same : {nanoseconds(7), nanoseconds::max()}) {
        auto const best = fastest_micro_batch(sizes, [&](std::int64_t) -> Result<nanoseconds> { return same; });
        REQUIRE(best);
        CHECK(*best == 1);
    }
}

TEST_CASE("fastest_micro_batch: a size that cannot be measured ends it") {
    Sizes measured;
    auto const best = fastest_micro_batch({1, 2, 4}, [&](std::int64_t size) -> Result<nanoseconds> {
        measured.push_back(size);
        if (size == 2) return Error{ErrorCode::rank_lost}.in("rank 1");
        return nanoseconds(1);
    });
    REQUIRE_FALSE(best);
    CHECK(best.error().code() == ErrorCode::rank_lost);
    CHECK(measured == Sizes{1, 2});
}
