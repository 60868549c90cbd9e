// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/token_mean.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "ranks.hpp"

#include <algorithm>
#include <cmath>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

std::vector<float> losses_of(std::int64_t count) {
    auto losses = input_numbers(17, count);
    for (auto& loss : losses) loss = (loss + 0.5F) * 7.0F;
    return losses;
}

}  // namespace

TEST_CASE("TokenMean: the mean over all tokens, not of the ranks' means") {
    // Two tokens of loss 1 on one rank, eight of loss 2 on the other: 1.8, where a mean of means gives 1.5.
    auto const means = on_threads(2, [](Threads& comm) {
        TokenMean mean;
        for (int i = 0; i < (comm.rank() == 0 ? 2 : 8); ++i) mean.add(comm.rank() == 0 ? 1.0F : 2.0F);
        auto const summed = mean.sum_over_ranks(comm);
        return summed ? mean.mean() : -1.0;
    });
    CHECK(means == std::vector<double>{1.8, 1.8});
}

TEST_CASE("TokenMean: the same bits in any order, any micro-batches, on any ranks") {
    auto const losses = losses_of(1000);
    std::vector<std::int32_t> targets(1000, 4);
    for (std::size_t i = 0; i < 1000; i += 3) targets[i] = -100;
    TokenMean whole;
    REQUIRE(whole.add(losses, targets));
    CHECK(whole.tokens() == 666);
    double sum = 0.0;
    for (std::size_t i = 0; i < 1000; ++i) sum += targets[i] < 0 ? 0.0 : static_cast<double>(losses[i]);
    // Each loss is rounded by at most half of 2^-30.
    CHECK(std::abs(whole.mean() - sum / 666.0) <= 0.5 * TokenMean::unit + 1e-12);

    TokenMean reversed;
    for (std::size_t i = 1000; i-- > 0;) {
        TokenMean one;
        if (targets[i] >= 0) one.add(losses[i]);
        reversed.add(one);
    }
    CHECK(reversed == whole);
    for (std::int32_t const ranks : {1, 2, 3, 5}) {
        auto const means = on_threads(ranks, [&](Threads& comm) {
            TokenMean mean;
            for (auto i = static_cast<std::size_t>(comm.rank()); i < 1000; i += static_cast<std::size_t>(ranks)) {
                if (targets[i] >= 0) mean.add(losses[i]);
            }
            (void)mean.sum_over_ranks(comm);
            return mean;
        });
        for (auto const& mean : means) CHECK(mean == whole);
    }
}

TEST_CASE("TokenMean: weights count as they are, and tokens of weight 0 do not") {
    TokenMean mean;
    mean.add(2.0F, 0.5F);
    mean.add(4.0F, 1.5F);
    mean.add(std::nanf(""), 0.0F);
    CHECK(mean.mean() == 3.5);
    CHECK(mean.weight() == 2.0);
    CHECK(mean.tokens() == 2);
}

TEST_CASE("TokenMean: no token, an undefined loss on one rank and sums beyond 63 bits are no mean") {
    CHECK(std::isnan(TokenMean{}.mean()));
    for (float const bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF, 1e30F}) {
        auto const finite = on_threads(2, [&](Threads& comm) {
            TokenMean mean;
            mean.add(comm.rank() == 1 ? bad : 1.0F);
            (void)mean.sum_over_ranks(comm);
            return mean.is_finite() || !std::isnan(mean.mean()) ? 1 : 0;
        });
        CHECK(finite == std::vector<int>{0, 0});
    }
    TokenMean large;
    for (int i = 0; i < (1 << 13); ++i) large.add(1048576.0F);
    CHECK_FALSE(large.is_finite());
    // Each rank's sum fits, their sum does not.
    auto const finite = on_threads(2, [](Threads& comm) {
        TokenMean mean;
        for (int i = 0; i < (1 << 12) + 1; ++i) mean.add(1048576.0F);
        bool const fits = mean.is_finite();
        (void)mean.sum_over_ranks(comm);
        return fits && !mean.is_finite() ? 1 : 0;
    });
    CHECK(finite == std::vector<int>{1, 1});
    CHECK(TokenMean{}.add(std::vector<float>{1.0F}, std::vector<std::int32_t>{}).error().code() ==
          ErrorCode::shape_mismatch);
}
