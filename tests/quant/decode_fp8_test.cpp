// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_fp8.hpp>
#include <shardwise/quant/encode_fp8.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise_test::from_hex;

TEST_CASE("E4M3 matrices with ragged blocks come out as torch computes them") {
    bool found = false;
    for (auto const& line : shardwise_test::golden_lines("fp8_mxfp4.txt")) {
        if (line[0] != "fp8") continue;
        found = true;
        auto const expected = from_hex<float>(line[7]);
        std::vector<float> decoded(expected.size());
        REQUIRE(decode_fp8_blocks(from_hex<std::uint8_t>(line[5]), from_hex<float>(line[6]), std::stoul(line[2]),
                                  std::stoul(line[3]), std::stoul(line[4]), decoded));
        CHECK(shardwise_test::count_differences(decoded, expected) == 0);
    }
    CHECK(found);
}

TEST_CASE("One block as large as the matrix is a scale for all of it") {
    std::array<std::uint8_t, 4> const weight{0x38, 0x40, 0xB8, 0x00};  // 1, 2, -1, 0
    std::array<float, 1> const scale{3.0F};
    std::array<float, 4> out{};
    REQUIRE(decode_fp8_blocks(weight, scale, 2, 2, 2, out));
    CHECK(out[1] == 6.0F);
    CHECK(out[2] == -3.0F);
    CHECK(decode_fp8_blocks(weight, scale, 2, 1, 2, out).error().code() == ErrorCode::shape_mismatch);
    CHECK_FALSE(decode_fp8_blocks(weight, scale, 0, 1, 2, out));
    CHECK_FALSE(decode_fp8_blocks(weight, scale, 3, 2, 3, out));
    // As large as anything can be.
    out = {};
    REQUIRE(decode_fp8_blocks(weight, scale, 2, SIZE_MAX, SIZE_MAX, out));
    CHECK(out[2] == -3.0F);
    CHECK_FALSE(decode_fp8_blocks(weight, {}, 2, SIZE_MAX, SIZE_MAX, out));
    std::array<std::uint8_t, 4> encoded{};
    std::array<float, 1> found{};
    REQUIRE(encode_fp8_blocks(out, 2, SIZE_MAX, SIZE_MAX, encoded, found));
    CHECK(found[0] == 6.0F / 448.0F);
    CHECK_FALSE(encode_fp8_blocks(out, 2, SIZE_MAX, SIZE_MAX, encoded, {}));
}
