// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/backward/rope.hpp>

#include <doctest/doctest.h>

#include "gradients.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

struct Rope {
    std::int64_t tokens, heads, head_dim, pairs, first;
    RopeLayout layout;
    float scale;
    std::vector<std::int32_t> positions{};
    std::vector<float> frequencies{};

    void fill(std::int32_t step) {
        for (std::int64_t t = 0; t < tokens; ++t) positions.push_back(static_cast<std::int32_t>(t) * step);
        // Powers of two are the same in float and in torch's float64.
        for (std::int64_t i = 0; i < pairs; ++i) frequencies.push_back(std::ldexp(1.0F, -static_cast<int>(i)));
    }
    /// The transpose of what rope does: a pair's gradients rotated back.
    [[nodiscard]] Expected expected(Matrix<float> const& gradient) const {
        Expected made(tokens, heads * head_dim);
        for (std::int64_t t = 0; t < tokens; ++t)
            for (std::int64_t h = 0; h < heads; ++h) {
                for (std::int64_t i = 0; i < head_dim; ++i)
                    made.add(t, h * head_dim + i, gradient.at(t, h * head_dim + i), 0.0);
                for (std::int64_t i = 0; i < pairs; ++i) {
                    bool const is_half = layout == RopeLayout::half;
                    auto const a = h * head_dim + first + (is_half ? i : 2 * i);
                    auto const b = is_half ? a + pairs : a + 1;
                    auto const angle = static_cast<double>(positions[static_cast<std::size_t>(t)]) *
                                       static_cast<double>(frequencies[static_cast<std::size_t>(i)]);
                    auto const cosine = std::cos(angle) * static_cast<double>(scale);
                    auto const sine = std::sin(angle) * static_cast<double>(scale);
                    auto const x = gradient.at(t, a), y = gradient.at(t, b);
                    // Each factor is rounded and scaled; two products, a sum.
                    auto const put = [&](std::int64_t at, double one, double two) {
                        made.values[made.at(t, at)] = one + two;
                        made.allowed[made.at(t, at)] = 4.0 * rounding * (std::abs(one) + std::abs(two));
                    };
                    put(a, x * cosine, y * sine);
                    put(b, y * cosine, -x * sine);
                }
            }
        return made;
    }
};

}  // namespace

TEST_CASE("rope_backward: turns gradients back, in either layout, partly and scaled, as torch does, on any threads") {
    for (auto const layout : {RopeLayout::half, RopeLayout::interleaved}) {
        for (auto rope : {Rope{4, 3, 10, 4, 0, layout, 1.5F}, Rope{2, 1, 8, 2, 3, layout, 1.0F},
                          Rope{260, 5, 64, 32, 0, layout, 1.0F}}) {
            rope.fill(rope.tokens == 4 ? 7 : 1009);
            auto const gradient = numbered_matrix(rope.tokens, rope.heads * rope.head_dim, 21);
            auto const expected = rope.expected(gradient);
            if (rope.tokens == 4) check_torch(expected, layout == RopeLayout::half ? "rope.half" : "rope.interleaved");
            auto made = gradient;
            for_levels_and_threads(
                [&](HostStream& stream) {
                    made = gradient;
                    REQUIRE(rope_backward<float>(made.view(), {rope.positions.data(), {rope.tokens}},
                                                 {rope.frequencies.data(), {rope.pairs}}, rope.head_dim, layout, stream,
                                                 rope.scale, rope.first));
                    check_bounds(made, expected);
                },
                [&] { return std::vector{made}; });
        }
    }
}

TEST_CASE("rope_backward: refuses what rope refuses, by its own name") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto gradient = numbered_matrix(2, 8, 1);
    std::vector<std::int32_t> const positions{0, 1};
    std::vector<float> const frequencies(5, 1.0F);
    auto const refused = rope_backward<float>(gradient.view(), {positions.data(), {2}}, {frequencies.data(), {5}}, 8,
                                              RopeLayout::half, stream);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("rope_backward") != std::string::npos);
}
