// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/dropout.hpp>

#include <doctest/doctest.h>

#include "gradients.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

Matrix<float> ones(std::int64_t rows, std::int64_t width) {
    Matrix<float> made{rows, width};
    made.values.assign(made.values.size(), 1.0F);
    return made;
}

Matrix<float> dropped(Matrix<float> const& in, DropoutOptions const& options) {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    Matrix<float> out{in.rows, in.width};
    REQUIRE(dropout(in.read(), out.view(), options, stream));
    return out;
}

}  // namespace

TEST_CASE(
    "dropout: keeps each element with its probability and scales it, on any threads and cut of rows and columns") {
    DropoutOptions const options{.rate = 0.3F, .seed = 7, .step = 11, .purpose = 1, .layer = 2, .sequence = 3};
    auto const in = numbered_matrix(200, 801, 91);
    Matrix<float> made{200, 801};
    for_levels_and_threads([&](HostStream& stream) { REQUIRE(dropout(in.read(), made.view(), options, stream)); },
                           [&] { return std::vector{made}; });
    std::int64_t kept = 0;
    for (std::size_t i = 0; i < in.values.size(); ++i) {
        if (made.values[i] == 0.0F) continue;
        ++kept;
        CHECK(made.values[i] == in.values[i] * (1.0F / 0.7F));
    }
    // Binomial: within five standard deviations.
    auto const n = 200.0 * 801.0;
    CHECK(std::abs(static_cast<double>(kept) - 0.7 * n) < 5.0 * std::sqrt(0.7 * 0.3 * n));
    // Some rows and columns, as another rank has them, are the same.
    Matrix<float> part{50, 90};
    auto share = options;
    share.first_token = 17;
    share.first_feature = 33;
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    REQUIRE(dropout(in.read().rows(17, 50).columns(33, 90), part.view(), share, stream));
    std::size_t different = 0;
    for (std::size_t row = 0; row < 50; ++row)
        for (std::size_t i = 0; i < 90; ++i)
            different += part.values[row * 90 + i] == made.values[(row + 17) * 801 + i + 33] ? 0U : 1U;
    CHECK(different == 0);
}

TEST_CASE("dropout: every part of an element's place draws anew, and nothing else does") {
    DropoutOptions const options{.rate = 0.5F, .seed = 7, .step = 11, .purpose = 1, .layer = 2, .sequence = 3};
    auto const in = ones(4, 64);
    auto const base = dropped(in, options);
    CHECK(are_same_bits(base, dropped(in, options)));
    std::vector<DropoutOptions> others(7, options);
    others[0].seed = 8;
    others[1].step = 12;
    others[2].purpose = 2;
    others[3].layer = 3;
    others[4].sequence = 4;
    others[5].first_token = 4;
    others[6].first_feature = 64;
    for (auto const& other : others) CHECK_FALSE(are_same_bits(base, dropped(in, other)));
    // Rows differ, too.
    CHECK(std::vector<float>(base.values.begin(), base.values.begin() + 64) !=
          std::vector<float>(base.values.begin() + 64, base.values.begin() + 128));
}

TEST_CASE("dropout: the gradient passes where the element did, is added where asked; a rate of 0 is a copy") {
    DropoutOptions const options{.rate = 0.5F, .seed = 1};
    auto const in = numbered_matrix(9, 77, 92);
    auto const made = dropped(in, options);
    auto const gradient = dropped(ones(9, 77), options);
    for (std::size_t i = 0; i < in.values.size(); ++i) CHECK(made.values[i] == in.values[i] * gradient.values[i]);
    auto sum = in;
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const dy = ones(9, 77);
    REQUIRE(dropout(dy.read(), sum.view(), options, stream, true));
    for (std::size_t i = 0; i < in.values.size(); ++i) CHECK(sum.values[i] == in.values[i] + gradient.values[i]);
    CHECK(are_same_bits(dropped(in, {.seed = 5}), in));
}

TEST_CASE("dropout: rates, purposes and layers out of their bounds are refused by name") {
    auto const in = ones(1, 4);
    Matrix<float> out{1, 4};
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    for (float const rate : {1.0F, -0.1F, std::numeric_limits<float>::quiet_NaN()}) {
        auto const refused = dropout(in.read(), out.view(), {.rate = rate}, stream);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message().find("rate") != std::string::npos);
    }
    CHECK_FALSE(dropout(in.read(), out.view(), {.purpose = 256}, stream));
    CHECK_FALSE(dropout(in.read(), out.view(), {.layer = 1U << 24U}, stream));
}
