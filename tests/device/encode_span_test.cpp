// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/detail/encode_span.hpp>
#include <shardwise/quant/encode_microscaling.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

using namespace shardwise;
using detail::SpanEncoder;

TEST_CASE(
    "SpanEncoder: MXFP4's exponent without a logarithm is ggml's near every power of two, and of zeros and "
    "infinities") {
    auto const check = [](float magnitude) {
        float values[32] = {};
        values[7] = -magnitude;
        CAPTURE(magnitude);
        REQUIRE(static_cast<int>(SpanEncoder<WeightFormat::mxfp4>::exponent_of(magnitude)) ==
                static_cast<int>(detail::mxfp4_exponent(std::span<float const, 32>(values))));
    };
    check(0.0F);
    check(std::numeric_limits<float>::infinity());
    for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
        auto const power = exponent << 23U;
        check(std::bit_cast<float>(power | 0x400000U));
        for (std::uint32_t step = 0; step <= 64; ++step) {
            check(std::bit_cast<float>(power + step));
            check(std::bit_cast<float>(power + 0x7FFFFFU - step));
        }
    }
}

TEST_CASE(
    "SeenRange, SeenFarthest: the first of equals is kept whichever thread is asked, and a NaN that begins a span "
    "makes all of it one") {
    auto const is_negative = [](float value) { return std::signbit(value); };
    detail::SeenRange low;
    detail::SeenRange high;
    low.see(-0.0F, 1, 2);
    high.see(0.0F, 1, 3);
    detail::SeenFarthest near;
    detail::SeenFarthest far;
    near.see(-3.0F, 4, 0);
    far.see(3.0F, 5, 0);
    for (bool const is_reversed : {false, true}) {
        auto range = is_reversed ? high : low;
        range.merge(is_reversed ? low : high);
        CHECK(is_negative(range.least));
        auto farthest = is_reversed ? far : near;
        farthest.merge(is_reversed ? near : far);
        CHECK(farthest.farthest == -3.0F);
        CHECK_FALSE(farthest.has_nan());
    }
    auto const nan = std::numeric_limits<float>::quiet_NaN();
    auto inner = low;
    inner.see(nan, 3, 0);
    low.merge(inner);
    CHECK(low.has_nan());
    CHECK(low.least == 0.0F);
    detail::SeenRange first;
    first.see(nan, 0, 0);
    high.merge(first);
    CHECK(std::isnan(SpanEncoder<WeightFormat::q4_1>(high).least));
    CHECK_FALSE(std::isnan(SpanEncoder<WeightFormat::q4_1>(low).least));
}

TEST_CASE("rounded_within: halves go away from zero or to even, without doubles, and bounds hold") {
    auto const check = [](float value) {
        CAPTURE(value);
        REQUIRE(detail::rounded_within<false>(value, -127, 127) == detail::round_away_within(value, 127));
        REQUIRE(detail::rounded_within<true>(value, -127, 127) == detail::round_even_within(value, -127, 127));
        REQUIRE(detail::rounded_within<true>(value, -8, 7) == detail::round_even_within(value, -8, 7));
        REQUIRE(detail::truncated_within(value, 0, 15) == detail::truncate_within(value, 0, 15));
    };
    for (int i = -300; i <= 300; ++i) {
        auto const half = std::bit_cast<std::uint32_t>(static_cast<float>(i) / 2.0F);
        for (std::uint32_t step = 0; step < 3; ++step) {
            check(std::bit_cast<float>(half + step));
            if (half >= step) check(std::bit_cast<float>(half - step));
        }
    }
    for (float const value :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e30F, 1e-40F}) {
        check(value);
        check(-value);
    }
}
