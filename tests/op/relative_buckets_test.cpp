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

TEST_CASE(
    "past_bucket: earlier keys fall into the buckets that transformers gives them where no query sees later ones") {
    // T5Attention._relative_position_bucket of transformers 4.57.6 without `bidirectional`; before the first each distance has its own.
    constexpr std::int64_t begins_of_32[] = {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
    for (std::int64_t distance = 0; distance < 300; ++distance) {
        auto expected = distance < 16 ? distance : std::int64_t{15};
        for (auto const begin : begins_of_32) expected += distance >= begin ? 1 : 0;
        CAPTURE(distance);
        CHECK(past_bucket(distance, 32, 128) == expected);
    }
    constexpr std::int64_t of_8[] = {0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 7};
    for (std::int64_t distance = 0; distance < 11; ++distance) CHECK(past_bucket(distance, 8, 9) == of_8[distance]);
}
