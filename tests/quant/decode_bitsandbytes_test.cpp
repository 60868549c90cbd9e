// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_bitsandbytes.hpp>
#include <shardwise/quant/encode_bitsandbytes.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

using namespace shardwise;
using shardwise_test::count_differences;
using shardwise_test::from_hex;

namespace {

std::vector<float> as_vector(std::array<float, 16> const& values) { return {values.begin(), values.end()}; }

}  // namespace

TEST_CASE("Four-bit codes, absmax of double quantisation and int8 rows decode as bitsandbytes decodes them") {
    int codes = 0;
    int weights = 0;
    int nested = 0;
    int rows = 0;
    for (auto const& line : shardwise_test::golden_lines("bitsandbytes.txt")) {
        if (line[0] == "size") continue;
        CAPTURE(line[0]);
        CAPTURE(line[1].substr(0, 8));
        auto const& code = line[1] == "nf4" ? nf4_values : bnb_fp4_values;
        if (line[0] == "code") {
            // The printed FP4 code has no negative zero; the kernels, checked below, have.
            auto expected = from_hex<float>(line[2]);
            if (line[1] == "fp4") expected[8] = -0.0F;
            CHECK(count_differences(as_vector(code), expected) == 0);
            ++codes;
        } else if (line[0] == "4bit") {
            auto const expected = from_hex<float>(line[4]);
            std::vector<float> decoded(expected.size());
            REQUIRE(decode_bnb_4bit(from_hex<std::uint8_t>(line[2]), from_hex<float>(line[3]), code, decoded));
            CHECK(count_differences(decoded, expected) == 0);
            ++weights;
        } else if (line[0] == "absmax") {
            auto const nested_code = from_hex<float>(line[3]);
            REQUIRE(nested_code.size() == 256);
            auto const expected = from_hex<float>(line[5]);
            std::vector<float> decoded(expected.size());
            REQUIRE(decode_bnb_absmax(from_hex<std::uint8_t>(line[1]), from_hex<float>(line[2]),
                                      std::span{nested_code}.first<256>(), from_hex<float>(line[4])[0], decoded));
            CHECK(count_differences(decoded, expected) == 0);
            ++nested;
        } else if (line[0] == "int8") {
            auto const packed = from_hex<std::int8_t>(line[1]);
            auto const absmax = from_hex<float>(line[2]);
            auto const expected = from_hex<float>(line[3]);
            auto const columns = packed.size() / absmax.size();
            std::vector<float> decoded(expected.size());
            for (std::size_t i = 0; i < absmax.size(); ++i) {
                decode_bnb_int8(std::span{packed}.subspan(i * columns, columns), absmax[i],
                                std::span{decoded}.subspan(i * columns, columns));
            }
            CHECK(count_differences(decoded, expected) == 0);
            ++rows;
        }
    }
    CHECK(codes == 2);
    CHECK(weights == 4);
    CHECK(nested == 2);
    CHECK(rows == 1);
}

TEST_CASE("Parts that do not fit together are refused") {
    std::vector<float> out(65);
    std::vector<std::uint8_t> const packed(33);
    CHECK(decode_bnb_4bit(packed, std::vector<float>(2), nf4_values, out));
    CHECK(decode_bnb_4bit(packed, std::vector<float>(1), nf4_values, out).error().code() == ErrorCode::shape_mismatch);
    CHECK_FALSE(decode_bnb_4bit(std::vector<std::uint8_t>(32), std::vector<float>(2), nf4_values, out));
    CHECK_FALSE(decode_bnb_4bit(packed, {}, nf4_values, out, 0));
    CHECK(decode_bnb_4bit(packed, std::vector<float>(1), nf4_values, out, SIZE_MAX));
    CHECK_FALSE(decode_bnb_4bit(packed, {}, nf4_values, out, SIZE_MAX));
    std::vector<std::uint8_t> encoded(33);
    std::vector<float> absmax(1);
    CHECK(encode_nf4(out, encoded, absmax, SIZE_MAX));
    CHECK_FALSE(encode_nf4(out, encoded, {}, SIZE_MAX));
    std::vector<float> const code(256);
    CHECK_FALSE(decode_bnb_absmax(std::vector<std::uint8_t>(65), {}, std::span{code}.first<256>(), 0.0F, out));
}
