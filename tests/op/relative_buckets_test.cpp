// SPDX-License-Identifier: Apache-2.0
#include <shardwise/op/relative_buckets.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>

using namespace shardwise;

namespace {

/// The offset at which a bucket begins, from -200 on.
struct BucketBegin {
    std::int64_t offset;
    std::int64_t bucket;
};

// MPNetEncoder.relative_position_bucket of transformers 4.57.6 for the offsets -200 to 200.
constexpr std::array begins{
    BucketBegin{-200, 15}, BucketBegin{-90, 14}, BucketBegin{-63, 13}, BucketBegin{-45, 12}, BucketBegin{-31, 11}, BucketBegin{-22, 10}, BucketBegin{-15, 9}, BucketBegin{-11, 8}, BucketBegin{-7, 7}, BucketBegin{-6, 6}, BucketBegin{-5,
    5}, BucketBegin{-4, 4}, BucketBegin{-3, 3}, BucketBegin{-2, 2}, BucketBegin{-1, 1}, BucketBegin{0, 0}, BucketBegin{1, 17}, BucketBegin{2, 18}, BucketBegin{3, 19}, BucketBegin{4, 20}, BucketBegin{5, 21}, BucketBegin{6, 22}, BucketBegin{7, 23},
    BucketBegin{8, 24}, BucketBegin{12, 25}, BucketBegin{16, 26}, BucketBegin{23, 27}, BucketBegin{32, 28}, BucketBegin{46, 29}, BucketBegin{64, 30}, BucketBegin{91, 31}};

}  // namespace

TEST_CASE("relative_bucket: keys fall into the buckets that transformers gives them") {
    std::size_t run = 0;
    for (std::int64_t offset = -200; offset <= 200; ++offset) {
        if (run + 1 < begins.size() && begins[run + 1].offset == offset) ++run;
        CAPTURE(offset);
        CHECK(relative_bucket(offset, 32) == begins[run].bucket);
    }
    CHECK(run + 1 == begins.size());
}

TEST_CASE("relative_bucket: beyond the reach all keys of one side share a bucket") {
    CHECK(relative_bucket(relative_reach, 32) == relative_bucket(100'000, 32));
    CHECK(relative_bucket(-relative_reach, 32) == relative_bucket(-100'000, 32));
}
