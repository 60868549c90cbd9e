// SPDX-License-Identifier: Apache-2.0
#include <shardwise/op/relative_buckets.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

using namespace shardwise;

namespace {

/// The offset at which a bucket begins, from -200 on.
struct BucketBegin {
    std::int64_t offset;
    std::int64_t bucket;
};

// MPNetEncoder.relative_position_bucket of transformers 4.57.6 for the offsets -200 to 200.
constexpr BucketBegin begins[] = {
    {-200, 15}, {-90, 14}, {-63, 13}, {-45, 12}, {-31, 11}, {-22, 10}, {-15, 9}, {-11, 8}, {-7, 7}, {-6, 6},
    {-5, 5}, {-4, 4}, {-3, 3}, {-2, 2}, {-1, 1}, {0, 0}, {1, 17}, {2, 18}, {3, 19}, {4, 20}, {5, 21}, {6, 22},
    {7, 23}, {8, 24}, {12, 25}, {16, 26}, {23, 27}, {32, 28}, {46, 29}, {64, 30}, {91, 31}};

}  // namespace

TEST_CASE("relative_bucket: keys fall into the buckets that transformers gives them") {
    std::size_t run = 0;
    for (std::int64_t offset = -200; offset <= 200; ++offset) {
        if (run + 1 < std::size(begins) && begins[run + 1].offset == offset) ++run;
        CAPTURE(offset);
        CHECK(relative_bucket(offset, 32) == begins[run].bucket);
    }
    CHECK(run + 1 == std::size(begins));
}

TEST_CASE("relative_bucket: beyond the reach all keys of one side share a bucket") {
    CHECK(relative_bucket(relative_reach, 32) == relative_bucket(100'000, 32));
    CHECK(relative_bucket(-relative_reach, 32) == relative_bucket(-100'000, 32));
}
