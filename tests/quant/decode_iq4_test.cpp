// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_iq4.hpp>

#include <doctest/doctest.h>

#include <array>

using namespace shardwise;

TEST_CASE("IQ4_NL looks its nibbles up in an uneven table") {
    std::array<std::uint8_t, 18> block{0x00, 0x3C};  // d = 1
    block[2] = 0x80;
    block[17] = 0x0F;
    std::array<float, 32> out{};
    decode_iq4_nl(block, out);
    CHECK(out[0] == -127.0F);
    CHECK(out[16] == 1.0F);
    CHECK(out[15] == 113.0F);
}

TEST_CASE("IQ4_XS joins six-bit scales from two places") {
    std::array<std::uint8_t, 136> block{0x00, 0x3C};  // d = 1
    block[2] = 0x0C;  // sub-block 1: high bits 3
    block[4] = 0x50;  // sub-block 1: low bits 5
    std::array<float, 256> out{};
    decode_iq4_xs(block, out);
    CHECK(out[0] == -32.0F * -127.0F);
    CHECK(out[32] == (5.0F + 48.0F - 32.0F) * -127.0F);
}
