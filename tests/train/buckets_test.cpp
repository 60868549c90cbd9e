// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/buckets.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr BucketTensor f32(std::int64_t elements) {
    return {.elements = elements};
}

}  // namespace

TEST_CASE("assign_buckets: torch's buckets") {
    int cases = 0;
    for (auto const& line : golden_lines("buckets.txt")) {
        List<Bytes> limits;
        for (auto const& word : line[0]) limits.push_back(Bytes{std::stoll(word)});
        List<BucketTensor> tensors;
        for (auto const& word : line[1]) {
            auto const sparse = word.rfind(':');
            tensors.push_back({.elements = std::stoll(word.substr(4)),
                               .dtype = *parse_dtype(word.substr(0, 3)),
                               .is_sparse = word.substr(sparse + 1) == "1"});
        }
        List<Bucket> expected;
        for (auto const& word : line[2]) {
            Bucket bucket;
            for (std::size_t at = 0; at < word.size(); at = std::min(word.find(',', at), word.size() - 1) + 1)
                bucket.push_back(std::stoi(word.substr(at)));
            expected.push_back(bucket);
        }
        auto const made = assign_buckets(tensors, limits);
        REQUIRE(made);
        CHECK(*made == expected);
        ++cases;
    }
    CHECK(cases == 6);
}

TEST_CASE("first_buckets: one of each dtype where they are rebuilt, else the list reversed") {
    List<BucketTensor> const tensors{f32(10), f32(10), f32(10), f32(10)};
    BucketOptions options{.first = Bytes{40}, .cap = Bytes{80}};
    CHECK(*first_buckets(tensors, options) == List<Bucket>{{0, 1, 2, 3}});
    options.finds_unused = true;
    CHECK(*first_buckets(tensors, options) == List<Bucket>{{3}, {1, 2}, {0}});
    options.is_static = true;
    CHECK(*first_buckets(tensors, options) == List<Bucket>{{0, 1, 2, 3}});
    // A cap that is asked for has no small first bucket: torch's bucket_cap_mb.
    auto capped = BucketOptions::with_cap(Bytes{80});
    capped.finds_unused = true;
    CHECK(*first_buckets(tensors, capped) == List<Bucket>{{2, 3}, {0, 1}});
}

TEST_CASE(
    "rebuilt_buckets: in the order in which gradients were ready, each bucket as long as its last tensor makes it") {
    List<BucketTensor> const tensors{f32(10), f32(10), f32(100), f32(10)};
    BucketOptions const options{.first = Bytes{40}, .cap = Bytes{80}};
    CHECK(*rebuilt_buckets(tensors, List<std::int32_t>{3, 2, 1, 0}, options) == List<Bucket>{{3}, {2}, {1, 0}});
    CHECK(*rebuilt_buckets(tensors, List<std::int32_t>{3, 1, 2, 0}, options) == List<Bucket>{{3}, {1, 2}, {0}});
    CHECK(rebuilt_buckets(tensors, List<std::int32_t>{3, 2, 1, 0}, {.finds_unused = true}).error().code() ==
          ErrorCode::unsupported);
}

TEST_CASE("assign_buckets: what cannot be is refused") {
    List<BucketTensor> const tensors{f32(10), f32(10)};
    List<Bytes> const limits{Bytes{40}};
    CHECK_FALSE(assign_buckets(tensors, {}));
    CHECK_FALSE(assign_buckets(tensors, limits, List<std::int32_t>{0}));
    CHECK_FALSE(assign_buckets(tensors, limits, List<std::int32_t>{0, 0}));
    CHECK_FALSE(assign_buckets(tensors, limits, List<std::int32_t>{0, 2}));
    CHECK_FALSE(assign_buckets(List<BucketTensor>{f32(-1)}, limits));
    CHECK(assign_buckets(List<BucketTensor>{f32(INT64_MAX)}, limits).error().code() == ErrorCode::size_overflow);
    CHECK(assign_buckets({}, limits)->empty());
}
