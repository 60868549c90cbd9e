// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_gptq.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <set>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise_test::from_hex;

TEST_CASE("GPTQ weights of 2, 3, 4 and 8 bits unpack to what was packed, activation order included") {
    std::set<unsigned> seen;
    for (auto const& line : shardwise_test::golden_lines("gptq.txt")) {
        CAPTURE(line[0]);
        auto const qweight = from_hex<std::uint32_t>(line[4]);
        auto const qzeros = from_hex<std::uint32_t>(line[5]);
        auto const scales = from_hex<std::uint16_t>(line[6]);
        auto const g_idx = from_hex<std::int32_t>(line[7]);
        auto const expected = from_hex<float>(line[8]);
        GptqWeight weight{.qweight = qweight, .qzeros = qzeros, .scales = scales, .g_idx = g_idx};
        weight.bits = static_cast<unsigned>(std::stoul(line[0]));
        weight.inputs = std::stoul(line[1]);
        weight.outputs = std::stoul(line[2]);
        weight.groups = std::stoul(line[3]);
        REQUIRE(weight.check());
        std::vector<float> decoded;
        for (std::size_t i = 0; i < weight.outputs * weight.inputs; ++i) {
            decoded.push_back(weight.at(i / weight.inputs, i % weight.inputs));
        }
        CHECK(shardwise_test::count_differences(decoded, expected) == 0);
        seen.insert(weight.bits);
    }
    CHECK(seen == std::set<unsigned>{2, 3, 4, 8});
}

TEST_CASE("GPTQ parts that do not fit together are refused before an element is read") {
    std::vector<std::uint32_t> const words(32);
    std::vector<std::uint32_t> const zeros(4);
    std::vector<std::uint16_t> const scales(32);
    std::vector<std::int32_t> g_idx(8);
    GptqWeight weight{.qweight = words, .qzeros = zeros, .scales = scales, .g_idx = g_idx};
    weight.inputs = 8;
    weight.outputs = 32;
    weight.groups = 1;
    CHECK(weight.check());
    g_idx[7] = 1;
    CHECK(weight.check().error().place() == "g_idx");
    g_idx[7] = -1;
    CHECK_FALSE(weight.check());
    g_idx[7] = 0;
    weight.bits = 5;
    CHECK(weight.check().error().code() == ErrorCode::invalid_argument);
    weight.bits = 8;
    CHECK(weight.check().error().code() == ErrorCode::shape_mismatch);
}
