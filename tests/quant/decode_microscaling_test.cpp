// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_microscaling.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <span>
#include <vector>

using namespace shardwise;
using shardwise_test::from_hex;

TEST_CASE("MXFP4 blocks of gpt-oss checkpoints decode as transformers decodes them") {
    bool found = false;
    for (auto const& line : shardwise_test::golden_lines("fp8_mxfp4.txt")) {
        if (line[0] != "mxfp4") continue;
        found = true;
        auto const blocks = from_hex<std::uint8_t>(line[1]);
        auto const scales = from_hex<std::uint8_t>(line[2]);
        auto const expected = from_hex<float>(line[3]);
        std::vector<float> decoded(expected.size());
        REQUIRE(expected.size() == scales.size() * 32);
        for (std::size_t i = 0; i < scales.size(); ++i) {
            decode_mxfp4_checkpoint(std::span{blocks}.subspan(i * 16).first<16>(), scales[i],
                                    std::span{decoded}.subspan(i * 32).first<32>());
        }
        CHECK(shardwise_test::count_differences(decoded, expected) == 0);
    }
    CHECK(found);
}

TEST_CASE("A checkpoint's MXFP4 block pairs neighbours where GGUF's pairs halves") {
    std::array<std::uint8_t, 17> block{127, 0x21};
    std::array<float, 32> ggml{};
    std::array<float, 32> checkpoint{};
    decode_mxfp4(block, ggml);
    decode_mxfp4_checkpoint(std::span{block}.subspan<1, 16>(), block[0], checkpoint);
    CHECK(ggml[0] == 0.5F);
    CHECK(ggml[16] == 1.0F);
    CHECK(checkpoint[0] == 0.5F);
    CHECK(checkpoint[1] == 1.0F);
}
