// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_fp8.hpp>
#include <shardwise/quant/encode_fp8.hpp>

#include <doctest/doctest.h>

#include "encoded_golden.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace shardwise;
using namespace shardwise_test;

TEST_CASE("to_e4m3: rounds as torch does, at every middle and beside it; blocks come back within half a step") {
    auto const line = EncodedGolden::read().line("e4m3");
    auto const values = from_hex<float>(line[1]);
    auto const bytes = from_hex<std::uint8_t>(line[2]);
    REQUIRE(values.size() > 700);
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) wrong += to_e4m3(values[i]) != bytes[i] ? 1 : 0;
    CHECK(wrong == 0);
    CHECK((to_e4m3(std::numeric_limits<float>::quiet_NaN()) & 0x7FU) == 0x7FU);

    auto const golden = EncodedGolden::read();
    std::vector<float> const matrix(golden.sweep.begin(), golden.sweep.begin() + 7 * 90);
    std::vector<std::uint8_t> quantised(matrix.size());
    std::vector<float> scales(4 * 3);
    REQUIRE(encode_fp8_blocks(matrix, 90, 2, 32, quantised, scales));
    std::vector<float> decoded(matrix.size());
    REQUIRE(decode_fp8_blocks(quantised, scales, 90, 2, 32, decoded));
    for (std::size_t i = 0; i < matrix.size(); ++i) {
        auto const scale = scales[i / 90 / 2 * 3 + i % 90 / 32];
        // Four bits of precision, or half of the smallest step; the quotient and the product are rounded too.
        auto const allowed = std::max(std::abs(matrix[i]) * 0x1p-4F, scale * 0x1p-10F) * 1.0001F;
        if (!(std::abs(decoded[i] - matrix[i]) <= allowed)) ++wrong;
    }
    CHECK(wrong == 0);
    CHECK(encode_fp8_blocks(matrix, 90, 2, 32, quantised, {scales.data(), 11}).error().code() ==
          ErrorCode::shape_mismatch);
}
