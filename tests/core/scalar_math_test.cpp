// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/scalar_math.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace shardwise;

TEST_CASE(
    "scalar_math: exp and log are the C library's to some units in the last place, and special values are theirs") {
    constexpr auto infinity = std::numeric_limits<double>::infinity();
    double exp_most = 0.0, log_most = 0.0;
    for (int i = -69'900; i < 70'900; i += 7) {
        auto const x = static_cast<double>(i) * 0.01;
        exp_most = std::max(exp_most, std::abs(detail::exponential_of(x) / std::exp(x) - 1.0));
        auto const y = std::exp(x);
        if (std::abs(x) > 0.01) log_most = std::max(log_most, std::abs(detail::logarithm_of(y) / std::log(y) - 1.0));
    }
    CHECK(exp_most < 4.0 * 0x1p-52);
    CHECK(log_most < 4.0 * 0x1p-52);
    for (double const near : {1.0 + 0x1p-52, 1.0 - 0x1p-53, 1.001, 0.999, 1.41421, 1.41422, 0.70710, 0.70711})
        CHECK(std::abs(detail::logarithm_of(near) / std::log(near) - 1.0) < 4.0 * 0x1p-52);
    CHECK(detail::logarithm_of(0x1p-1070) == doctest::Approx(std::log(0x1p-1070)).epsilon(1e-15));
    CHECK(detail::exponential_of(-infinity) == 0.0);
    CHECK(detail::exponential_of(0.0) == 1.0);
    CHECK(detail::exponential_of(infinity) == infinity);
    CHECK(std::isnan(detail::exponential_of(std::nan(""))));
    CHECK(detail::logarithm_of(1.0) == 0.0);
    CHECK(detail::logarithm_of(0.0) == -infinity);
    CHECK(detail::logarithm_of(infinity) == infinity);
    CHECK(std::isnan(detail::logarithm_of(-1.0)));
    CHECK(std::isnan(detail::logarithm_of(std::nan(""))));
}

TEST_CASE("scalar_math: powers are the C library's when both are rounded to float") {
    // As of rope's periods and ALiBi's slopes: there the C library's last bit depends on the processor.
    int differ = 0;
    for (double const base : {10'000.0, 500'000.0, 1e6, 8e6, 160'000.0, 2.0, 0.5, 0.0078125}) {
        for (int rotary = 2; rotary <= 256; rotary += 2) {
            for (int i = 0; i < rotary; i += 2) {
                auto const exponent = static_cast<double>(static_cast<float>(i) / static_cast<float>(rotary));
                auto const power = detail::power_of(base, exponent);
                if (static_cast<float>(power) != static_cast<float>(std::pow(base, exponent))) ++differ;
                CHECK(std::abs(power / std::pow(base, exponent) - 1.0) < 32.0 * 0x1p-52);
            }
        }
    }
    CHECK(differ == 0);
    for (int power = -20; power <= 20; ++power)
        CHECK(static_cast<float>(detail::power_of(2.0, power)) == std::ldexp(1.0F, power));
}

TEST_CASE("scalar_math: sines and cosines of small and of huge angles are within 1e-13 of the C library's") {
    double most = 0.0;
    auto const look_at = [&](double angle) {
        auto const turned = detail::sine_cosine_of(angle);
        most = std::max(most, std::abs(turned.sine - std::sin(angle)));
        most = std::max(most, std::abs(turned.cosine - std::cos(angle)));
        auto const back = detail::sine_cosine_of(-angle);
        CHECK(back.sine == -turned.sine);
        CHECK(back.cosine == turned.cosine);
    };
    for (int i = 0; i < 20'000; ++i) look_at(static_cast<double>(i) * 0.0137);
    for (int i = 0; i < 20'000; ++i) look_at(static_cast<double>(i) * 107'374.123456789);
    CHECK(most < 1e-13);
}
