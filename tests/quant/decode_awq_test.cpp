// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_awq.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise_test::from_hex;

TEST_CASE("AWQ weights unpack in the order 0, 2, 4, 6, 1, 3, 5, 7") {
    auto const lines = shardwise_test::golden_lines("awq.txt");
    REQUIRE(lines.size() == 1);
    auto const& line = lines[0];
    auto const qweight = from_hex<std::uint32_t>(line[3]);
    auto const qzeros = from_hex<std::uint32_t>(line[4]);
    auto const scales = from_hex<std::uint16_t>(line[5]);
    AwqWeight weight{.qweight = qweight, .qzeros = qzeros, .scales = scales};
    weight.inputs = std::stoul(line[0]);
    weight.outputs = std::stoul(line[1]);
    weight.group = std::stoul(line[2]);
    REQUIRE(weight.check());
    std::vector<float> decoded;
    for (std::size_t i = 0; i < weight.outputs * weight.inputs; ++i) {
        decoded.push_back(weight.at(i / weight.inputs, i % weight.inputs));
    }
    CHECK(shardwise_test::count_differences(decoded, from_hex<float>(line[6])) == 0);
    weight.group = 16;
    CHECK(weight.check().error().code() == ErrorCode::shape_mismatch);
    weight.group = 0;
    CHECK_FALSE(weight.check());
    // A group longer than all inputs is one group.
    weight.group = SIZE_MAX;
    CHECK_FALSE(weight.check());
    weight.qzeros = weight.qzeros.first(weight.outputs / 8);
    weight.scales = weight.scales.first(weight.outputs);
    CHECK(weight.check());
    weight.qzeros = {};
    weight.scales = {};
    CHECK_FALSE(weight.check());
}
