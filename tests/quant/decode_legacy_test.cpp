// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_legacy.hpp>

#include <doctest/doctest.h>

#include <array>

using namespace shardwise;

TEST_CASE("Four-bit blocks keep their second half in the high bits") {
    std::array<std::uint8_t, 18> block{0x00, 0x3C};  // d = 1
    block[2] = 0xF0;
    std::array<float, 32> out{};
    decode_q4_0(block, out);
    CHECK(out[0] == -8.0F);
    CHECK(out[16] == 7.0F);
}

TEST_CASE("Q8_1 is its signed bytes times d; the stored sum plays no part") {
    std::array<std::uint8_t, 36> block{0x00, 0x38, 0xFF, 0x7B};  // d = 0.5, sum = largest half
    block[4] = 0x80;
    block[35] = 3;
    std::array<float, 32> out{};
    decode_q8_1(block, out);
    CHECK(out[0] == -64.0F);
    CHECK(out[1] == 0.0F);
    CHECK(out[31] == 1.5F);
}
