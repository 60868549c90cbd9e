// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/xielu.hpp>

#include <doctest/doctest.h>

#include "row_matrices.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

using namespace shardwise;
using namespace shardwise::testing;

// transformers 4.57.6: XIELUActivation(dtype=torch.float64) with alpha_p = 0.4, alpha_n = -0.3 at these places.
TEST_CASE("xielu: is transformers' activation, whose alphas are learned before a softplus") {
    auto const numbers = XieluNumbers::of_stored(0.4F, -0.3F, 0.5F, -1e-6F);
    CHECK(numbers.alpha_p == doctest::Approx(0.91301525).epsilon(1e-6));
    CHECK(numbers.alpha_n == doctest::Approx(1.05435527).epsilon(1e-6));
    for (auto const& [x, expected] : {std::pair{-30.0F, 15.5763021}, std::pair{-2.0F, 0.19704671},
                                      std::pair{-0.25F, -0.0946337433}, std::pair{0.0F, -1.05435472e-06},
                                      std::pair{0.125F, 0.0767658633}, std::pair{3.0F, 9.71713727}})
        CHECK(xielu(x, numbers) == doctest::Approx(expected).epsilon(2e-6));
    CHECK(std::isnan(xielu(std::numeric_limits<float>::quiet_NaN(), numbers)));
    // softplus is the identity far out.
    CHECK(XieluNumbers::of_stored(90.0F, 90.0F, 0.5F, 0.0F).alpha_n == 90.5F);
}

TEST_CASE("xielu: rows get the formula, also in place; other than four numbers are refused") {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    auto const in = random_matrix<float>(3, 1'003, 5, 4.0F);
    auto out = in;
    float const stored[] = {0.8F, 0.7F, 0.5F, -1e-6F, 0.0F};
    REQUIRE(xielu(out.read(), TensorView<float const, 1, Host>(stored, {4}), out.view(), stream));
    check_close<float>(
        out,
        [&](std::int64_t row, std::int64_t i) {
            auto const x = static_cast<double>(in.at(row, i));
            if (x > 0.0) return 0.8F * x * x + 0.5 * x;
            return (std::expm1(std::min(x, static_cast<double>(-1e-6F))) - x) * static_cast<double>(0.7F) + 0.5 * x;
        },
        16.0, 1.0);
    auto const refused = xielu(in.read(), TensorView<float const, 1, Host>(stored, {5}), out.view(), stream);
    REQUIRE(!refused);
    CHECK(refused.error().code() == ErrorCode::shape_mismatch);
    CHECK(refused.error().place() == "numbers");
}
