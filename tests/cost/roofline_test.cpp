// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/roofline.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

// facts/kernels.md: "Bounds on H200 at batch 1: Llama-3-8B bf16 286 tokens/s" at the measured copy bandwidth of 4.3
// TB/s
TEST_CASE("roofline: decoding Llama-3-8B is bound by reading its weights") {
    RooflineRates const h200{989e12, 4.3e12};
    auto const weights = 2.0 * (8030261248.0 - 128256.0 * 4096.0);
    CHECK(1.0 / roofline_seconds(weights, weights, h200) == doctest::Approx(286).epsilon(0.005));
}

TEST_CASE("roofline: the slower of arithmetic and memory decides") {
    CHECK(roofline_seconds(100.0, 10.0, {10.0, 10.0}) == 10.0);
    CHECK(roofline_seconds(10.0, 100.0, {10.0, 10.0}) == 10.0);
    CHECK(roofline_seconds(0.0, 0.0, {10.0, 10.0}) == 0.0);
}

TEST_CASE("roofline: an unknown rate bounds nothing") {
    CHECK(roofline_seconds(100.0, 10.0, {0.0, 10.0}) == 1.0);
    CHECK(roofline_seconds(100.0, 10.0, {}) == 0.0);
}

TEST_CASE("message: latency, and bytes at the link's bandwidth") {
    CHECK(message_seconds(1e9, 1e-5, 1e9) == doctest::Approx(1.00001));
    CHECK(message_seconds(1e9, 1e-5, 0.0) == 1e-5);
}
