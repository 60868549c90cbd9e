// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_ternary.hpp>

#include <doctest/doctest.h>

#include <array>

using namespace shardwise;

// The gguf package decodes neither Q1_0 nor Q2_0; expectations follow ggml-quants.c.

TEST_CASE("Q1_0 takes one sign for each element, lowest bit first") {
    std::array<std::uint8_t, 18> block{0x00, 0x38};  // d = 0.5
    block[2] = 0x05;
    block[17] = 0x80;
    std::array<float, 128> out{};
    decode_q1_0(block, out);
    CHECK(out[0] == 0.5F);
    CHECK(out[1] == -0.5F);
    CHECK(out[2] == 0.5F);
    CHECK(out[126] == -0.5F);
    CHECK(out[127] == 0.5F);
}

TEST_CASE("Q2_0 takes two bits for each element, lowest first, less one") {
    std::array<std::uint8_t, 18> block{0x00, 0x3C};  // d = 1
    block[2] = 0xE4;  // 0, 1, 2, 3
    std::array<float, 64> out{};
    decode_q2_0(block, out);
    CHECK(out[0] == -1.0F);
    CHECK(out[1] == 0.0F);
    CHECK(out[2] == 1.0F);
    CHECK(out[3] == 2.0F);
    CHECK(out[63] == -1.0F);
}

TEST_CASE("TQ1_0 holds five digits to the base of three in a byte") {
    // Digits 2, 0, 1, 2, 2 as a fraction of 243, rounded up to one of 256.
    int const number = 2 * 81 + 0 * 27 + 1 * 9 + 2 * 3 + 2;
    std::array<std::uint8_t, 54> block{};
    block[0] = static_cast<std::uint8_t>((number * 256 + 242) / 243);
    block[53] = 0x3C;  // d = 1
    std::array<float, 256> out{};
    decode_tq1_0(block, out);
    CHECK(out[0] == 1.0F);
    CHECK(out[32] == -1.0F);
    CHECK(out[64] == 0.0F);
    CHECK(out[96] == 1.0F);
    CHECK(out[128] == 1.0F);
}
