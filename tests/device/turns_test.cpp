// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/detail/turns.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>

using namespace shardwise;
using detail::turn_of;

namespace {

/// What turns.hpp promises.
constexpr double bound = 3 * 0x1p-24;

/// How far cosine and sine are from those of the exact product, which a long double holds: 55 digits of 64.
double distance(std::int32_t position, float frequency) {
    auto const turn = turn_of(position, frequency);
    auto const angle = static_cast<long double>(position) * static_cast<long double>(frequency);
    auto const cosine = std::abs(static_cast<double>(std::cos(angle) - static_cast<long double>(turn.cosine)));
    auto const sine = std::abs(static_cast<double>(std::sin(angle) - static_cast<long double>(turn.sine)));
    return cosine > sine ? cosine : sine;
}

}  // namespace

TEST_CASE("turn_of: cosine and sine of every angle are within three half units of one, in all quarters") {
    double worst = 0.0;
    // Numbers of turns spread evenly, and the borders of quarters and eighths with their neighbours.
    auto const look_at = [&](std::uint64_t turns) {
        auto const angle = static_cast<long double>(turns) * 0x1p-64L * 6.283185307179586476925286766559L;
        auto const turn = turn_of(turns);
        worst = std::max(worst, std::abs(static_cast<double>(std::cos(angle) - static_cast<long double>(turn.cosine))));
        worst = std::max(worst, std::abs(static_cast<double>(std::sin(angle) - static_cast<long double>(turn.sine))));
    };
    constexpr std::uint64_t step = UINT64_MAX / 300007;
    for (std::uint64_t i = 0; i < 300007; ++i) look_at(i * step);
    for (std::uint64_t eighth = 0; eighth < 8; ++eighth) {
        for (std::uint64_t const off : {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX, std::uint64_t{1} << 40U}) {
            look_at((eighth << 61U) + off);
        }
    }
    CHECK(worst <= bound);
    // The bound says something: a polynomial with one term less is beyond it.
    CHECK(worst > 0x1p-24);
}

TEST_CASE("turn_of: no position and no frequency of a model loses its angle") {
    double worst = 0.0;
    std::mt19937_64 generator(3);
    for (int i = 0; i < 100000; ++i) {
        auto const position = static_cast<std::int32_t>(generator() >> (32U + generator() % 32U));
        auto const frequency =
            std::ldexp(static_cast<float>(generator() % 0x1000000U), -static_cast<int>(generator() % 60U));
        // What a long double holds of the angle.
        if (static_cast<double>(position) * static_cast<double>(frequency) < 0x1p40) {
            worst = std::max(worst, distance(position, frequency));
            worst = std::max(worst, distance(-position, frequency));
            worst = std::max(worst, distance(position, -frequency));
        }
    }
    for (auto const position : {0, 1, -1, INT32_MAX, INT32_MIN}) {
        for (auto const frequency : {0.0F, -0.0F, 1.0F, 1e-4F, 0x1p-126F, 0x1p-149F, 0x1.fffffep-127F, 3.1415927F}) {
            worst = std::max(worst, distance(position, frequency));
        }
    }
    CHECK(worst <= bound);
}

TEST_CASE("turn_of: a frequency that is no number, or of which nothing is left, gives no number") {
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    for (auto const frequency : {infinity, -infinity, std::nanf(""), 0x1p64F, -0x1p100F}) {
        auto const turn = turn_of(std::int32_t{3}, frequency);
        CHECK(std::isnan(turn.cosine));
        CHECK(std::isnan(turn.sine));
    }
    CHECK_FALSE(std::isnan(turn_of(std::int32_t{3}, 0x1.fffffep63F).sine));
}
