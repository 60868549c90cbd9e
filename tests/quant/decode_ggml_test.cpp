// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_ggml.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <set>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise_test::count_differences;
using shardwise_test::from_hex;
using shardwise_test::golden_lines;

TEST_CASE("Blocks of every GGUF type that the gguf package decodes come out equal to it in every bit") {
    std::set<std::string> seen;
    for (auto const& line : golden_lines("ggml_blocks.txt")) {
        CAPTURE(line[0]);
        auto const type = parse_ggml_type(line[0]);
        REQUIRE(type);
        auto const blocks = from_hex<std::uint8_t>(line[1]);
        auto const expected = from_hex<float>(line[2]);
        std::vector<float> decoded(expected.size());
        REQUIRE(decode_ggml(*type, blocks, decoded));
        CHECK(count_differences(decoded, expected) == 0);
        seen.insert(line[0]);
    }
    CHECK(seen.size() == 16);
}

TEST_CASE("Several blocks decode one after the other") {
    std::vector<std::uint8_t> blocks(2 * 34, 0);
    blocks[1] = 0x3C;   // 1.0
    blocks[2] = 5;
    blocks[34 + 1] = 0x40;  // 2.0
    blocks[34 + 33] = 0xFF;
    std::vector<float> out(64);
    REQUIRE(decode_ggml(GgmlType::q8_0, blocks, out));
    CHECK(out[0] == 5.0F);
    CHECK(out[31] == 0.0F);
    CHECK(out[63] == -2.0F);
}

TEST_CASE("Dense types decode too, little-endian") {
    std::vector<float> out(1);
    REQUIRE(decode_ggml(GgmlType::f32, std::vector<std::uint8_t>{0x00, 0x00, 0xC0, 0x3F}, out));
    CHECK(out[0] == 1.5F);
    REQUIRE(decode_ggml(GgmlType::f16, std::vector<std::uint8_t>{0x00, 0x3E}, out));
    CHECK(out[0] == 1.5F);
    REQUIRE(decode_ggml(GgmlType::bf16, std::vector<std::uint8_t>{0xC0, 0x3F}, out));
    CHECK(out[0] == 1.5F);
}

TEST_CASE("A wrong number of bytes or elements and an undecodable type are errors") {
    std::vector<std::uint8_t> const blocks(34);
    std::vector<float> out(32);
    CHECK(decode_ggml(GgmlType::q8_0, blocks, out));
    CHECK(decode_ggml(GgmlType::q4_0, blocks, out).error().code() == ErrorCode::shape_mismatch);
    out.resize(33);
    CHECK(decode_ggml(GgmlType::q8_0, blocks, out).error().code() == ErrorCode::shape_mismatch);
    for (auto const type : {GgmlType::iq1_s, GgmlType::iq2_xxs, GgmlType::iq3_s, GgmlType::i32, GgmlType::f64}) {
        CHECK_FALSE(can_decode(type));
        CHECK(decode_ggml(type, blocks, out).error().code() == ErrorCode::unsupported);
    }
}

TEST_CASE("Decoding works in constant expressions") {
    constexpr auto first = [] {
        std::array<std::uint8_t, 144> block{};
        block[1] = 0x3C;  // d = 1
        block[4] = 3;     // the first scale
        block[16] = 0x0F;
        std::array<float, 256> out{};
        decode_q4_k(block, out);
        return out[0];
    }();
    static_assert(first == 45.0F);
}
