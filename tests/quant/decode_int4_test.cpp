// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_int4.hpp>
#include <shardwise/quant/encode_int4.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace shardwise;

TEST_CASE("int4 rows take a scale for each group and the low half of a byte first") {
    std::array<std::uint8_t, 2> const packed{0xF0, 0x09};
    std::array<std::uint16_t, 2> const scales{0x3C00, 0x4000};  // 1, 2
    std::array<float, 3> out{};
    REQUIRE(decode_int4_row(packed, scales, 2, out));
    CHECK(out[0] == -8.0F);
    CHECK(out[1] == 7.0F);
    CHECK(out[2] == 2.0F);
    CHECK(decode_int4_row(packed, scales, 3, out).error().code() == ErrorCode::shape_mismatch);
    CHECK_FALSE(decode_int4_row(packed, scales, 0, out));
}

TEST_CASE("A group of int4 that is longer than its row, however long, is the row") {
    std::array<std::uint8_t, 2> const packed{0xF0, 0x09};
    std::array<std::uint16_t, 1> const scale{0x4000};
    for (auto const group : {std::size_t{4}, SIZE_MAX - 1, SIZE_MAX}) {
        std::array<float, 3> out{};
        REQUIRE(decode_int4_row(packed, scale, group, out));
        CHECK(out[1] == 14.0F);
        CHECK_FALSE(decode_int4_row(packed, {}, group, out));

        std::array<std::uint8_t, 2> encoded{};
        std::array<std::uint16_t, 1> found{};
        REQUIRE(encode_int4_row(out, group, encoded, found));
        CHECK(found == scale);
        CHECK_FALSE(encode_int4_row(out, group, encoded, {}));
    }
}
