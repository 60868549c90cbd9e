// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/distributed_sampler.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <set>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

using Indices = List<std::int64_t>;

}  // namespace

TEST_CASE("DistributedSampler: the published indices") {
    // torch.utils.data.DistributedSampler: 10 over 4, 11 over 3.
    auto const indices = [](std::int64_t samples, std::int64_t ranks, DistributedSamplerOptions const& options,
                            std::int64_t epoch) {
        auto const sampler = DistributedSampler::create(samples, options);
        std::vector<Indices> out;
        for (std::int64_t rank = 0; rank < ranks; ++rank) out.push_back(*sampler->indices(rank, ranks, epoch));
        return out;
    };
    CHECK(indices(10, 4, {.shuffles = false}, 0) == std::vector<Indices>{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}});
    CHECK(indices(11, 3, {.shuffles = false}, 0) == std::vector<Indices>{{0, 3, 6, 9}, {1, 4, 7, 10}, {2, 5, 8, 0}});
    CHECK(indices(11, 3, {.shuffles = false, .drops_last = true}, 0) ==
          std::vector<Indices>{{0, 3, 6}, {1, 4, 7}, {2, 5, 8}});
    CHECK(indices(11, 3, {.seed = 7}, 2) == std::vector<Indices>{{4, 8, 0, 10}, {9, 3, 1, 6}, {2, 7, 5, 4}});
}

TEST_CASE("DistributedSampler: torch's indices") {
    for (auto const& line : golden_lines("sampler.txt")) {
        auto const n = [&](std::size_t i) { return std::stoll(line[0][i]); };
        auto const sampler = DistributedSampler::create(
            n(0), {.shuffles = n(3) != 0, .drops_last = n(2) != 0, .seed = static_cast<std::uint64_t>(n(4))});
        REQUIRE(sampler);
        auto const indices = sampler->indices(n(6), n(1), n(5));
        REQUIRE(indices);
        Indices expected;
        if (line.size() > 1) {
            for (auto const& word : line[1]) expected.push_back(std::stoll(word));
        }
        CHECK(*indices == expected);
        CHECK(*sampler->samples_per_rank(n(1)) == static_cast<std::int64_t>(expected.size()));
    }
}

TEST_CASE("DistributedSampler: a global batch has the same samples on any number of ranks") {
    auto const sampler = DistributedSampler::create(103, {.seed = 5});
    auto const batches = [&](std::int64_t ranks) {
        auto const each = 12 / ranks;
        std::vector<std::set<std::int64_t>> out(8);
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            auto const own = *sampler->indices(rank, ranks, 3);
            for (std::size_t batch = 0; batch < out.size(); ++batch) {
                for (std::size_t i = 0; i < static_cast<std::size_t>(each); ++i)
                    out[batch].insert(own[batch * static_cast<std::size_t>(each) + i]);
            }
        }
        return out;
    };
    auto const expected = batches(1);
    auto const order = *sampler->order(3);
    CHECK(expected[2] == std::set<std::int64_t>(order.begin() + 24, order.begin() + 36));
    for (std::int64_t const ranks : {2, 3, 4, 6, 12}) CHECK(batches(ranks) == expected);
}

TEST_CASE("DistributedSampler: no samples, no ranks and too many samples to shuffle are refused") {
    CHECK_FALSE(DistributedSampler::create(0));
    auto const sampler = DistributedSampler::create(3);
    CHECK_FALSE(sampler->indices(0, 0, 0));
    CHECK_FALSE(sampler->indices(2, 2, 0));
    CHECK_FALSE(sampler->indices(-1, 2, 0));
    CHECK_FALSE(sampler->samples_per_rank(0));
    CHECK(torch_permutation(214'748'364, 0).error().code() == ErrorCode::capacity_exceeded);
    CHECK(torch_permutation(-1, 0).error().code() == ErrorCode::invalid_argument);
    CHECK(torch_permutation(0, 0)->empty());
}
