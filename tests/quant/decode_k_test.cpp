// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_k.hpp>

#include <doctest/doctest.h>

#include <array>

using namespace shardwise;

TEST_CASE("Q8_K is its signed bytes times a scale in fp32") {
    std::array<std::uint8_t, 292> block{0x00, 0x00, 0x40, 0x3F};  // d = 0.75
    block[4] = 0xFE;
    block[4 + 255] = 4;
    std::array<float, 256> out{};
    decode_q8_k(block, out);
    CHECK(out[0] == -1.5F);
    CHECK(out[255] == 3.0F);
}

TEST_CASE("Six-bit scales of the last four sub-blocks take their top bits from the first eight bytes") {
    std::array<std::uint8_t, 12> packed{};
    packed[0] = 0x80;  // scale 4, top bits 2
    packed[4] = 0x40;  // minimum 4, top bits 1
    packed[8] = 0x93;  // low bits: scale 3, minimum 9
    auto const sub = detail::unpack_scale(packed, 4);
    CHECK(sub.scale == 3 + 16 * 2);
    CHECK(sub.minimum == 9 + 16 * 1);
    CHECK(detail::unpack_scale(packed, 0).scale == 0);
}
