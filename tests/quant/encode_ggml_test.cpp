// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_ggml.hpp>
#include <shardwise/quant/encode_ggml.hpp>

#include <doctest/doctest.h>

#include "encoded_golden.hpp"

#include <cmath>
#include <limits>
#include <vector>

using namespace shardwise;
using namespace shardwise_test;

TEST_CASE("encode_ggml: writes the bytes of gguf for every type, at the edges and over a sweep") {
    auto const golden = EncodedGolden::read();
    int types = 0;
    for (auto const& line : golden.lines) {
        auto const type = parse_ggml_type(line[0]);
        if (!type) continue;
        ++types;
        CAPTURE(line[0]);
        CHECK(can_encode(*type));
        auto const encode = [&](std::vector<float> const& values) {
            auto const bytes = ggml_row_bytes(*type, static_cast<std::int64_t>(values.size()));
            std::vector<std::uint8_t> blocks(static_cast<std::size_t>(*bytes));
            REQUIRE(encode_ggml(*type, values, blocks));
            return blocks;
        };
        CHECK(encode(golden.edges) == from_hex<std::uint8_t>(line[1]));
        CHECK(fnv1a(encode(golden.sweep)) == line[2]);
    }
    CHECK(types == 8);
}

TEST_CASE("encode_ggml: what is no number is not hidden by a block's other values") {
    for (auto const type : {GgmlType::q4_0, GgmlType::q4_1, GgmlType::q5_0, GgmlType::q5_1, GgmlType::q8_0}) {
        for (float const odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            for (std::size_t const at : {0U, 31U}) {
                std::vector<float> values(64, 1.0F);
                values[at] = odd;
                std::vector<std::uint8_t> blocks(static_cast<std::size_t>(*ggml_row_bytes(type, 64)));
                REQUIRE(encode_ggml(type, values, blocks));
                std::vector<float> decoded(64);
                REQUIRE(decode_ggml(type, blocks, decoded));
                CHECK_FALSE(std::isfinite(decoded[at]));
                CHECK(std::abs(decoded[40] - 1.0F) < 0.01F);
            }
        }
    }
    std::vector<float> values(32, 1.0F);
    values[3] = std::numeric_limits<float>::quiet_NaN();
    std::vector<std::uint8_t> block(17);
    REQUIRE(encode_ggml(GgmlType::mxfp4, values, block));
    CHECK(block[0] == 255);
}

TEST_CASE("encode_ggml: refuses types that it does not know and sizes that are no blocks") {
    std::vector<float> const values(256);
    std::vector<std::uint8_t> bytes(144);
    CHECK_FALSE(can_encode(GgmlType::q4_k));
    CHECK(encode_ggml(GgmlType::q4_k, values, bytes).error().code() == ErrorCode::unsupported);
    CHECK(encode_ggml(GgmlType::q8_0, values, bytes).error().code() == ErrorCode::shape_mismatch);
    bytes.resize(0);
    CHECK(encode_ggml(GgmlType::q4_0, {values.data(), 31}, bytes).error().code() == ErrorCode::shape_mismatch);
    CHECK(encode_ggml(GgmlType::q4_0, {}, bytes));
}
