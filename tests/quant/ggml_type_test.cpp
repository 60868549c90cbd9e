// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/ggml_type.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <string>

using namespace shardwise;

TEST_CASE("Names, block elements and block bytes are those of the gguf package") {
    std::size_t known = 0;
    for (auto const& line : shardwise_test::golden_lines("ggml_types.txt")) {
        CAPTURE(line[1]);
        auto const type = ggml_type_of(static_cast<std::uint32_t>(std::stoul(line[0])));
        REQUIRE(type);
        CHECK(name_of(*type) == line[1]);
        CHECK(traits(*type).block_elements == std::stoi(line[2]));
        // The package counts two fp32 numbers in a block of Q8_1; ggml-common.h has two halves.
        CHECK(traits(*type).block_bytes == (line[1] == "Q8_1" ? 36 : std::stoi(line[3])));
        CHECK(parse_ggml_type(line[1]) == type);
        ++known;
    }
    CHECK(known == 34);
}

TEST_CASE("Removed types are not types but keep their names") {
    for (std::uint32_t const number : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U}) {
        CHECK_FALSE(ggml_type_of(number));
        CHECK_FALSE(removed_ggml_type(number).empty());
        CHECK_FALSE(parse_ggml_type(removed_ggml_type(number)));
    }
    CHECK(removed_ggml_type(31) == "Q4_0_4_4");
    CHECK(removed_ggml_type(12).empty());
    CHECK_FALSE(ggml_type_of(43));
    CHECK_FALSE(ggml_type_of(0xFFFFFFFFU));
    CHECK(removed_ggml_type(43).empty());
}

TEST_CASE("Names parse in any case and only whole") {
    CHECK(parse_ggml_type("q4_k") == GgmlType::q4_k);
    CHECK(parse_ggml_type("Iq2_xXs") == GgmlType::iq2_xxs);
    CHECK_FALSE(parse_ggml_type("q4_k_m"));
    CHECK_FALSE(parse_ggml_type("q4"));
    CHECK_FALSE(parse_ggml_type(""));
}

TEST_CASE("Rows hold whole blocks and sizes do not overflow") {
    CHECK(ggml_row_bytes(GgmlType::q4_k, 512) == 288);
    CHECK(ggml_row_bytes(GgmlType::q4_k, 0) == 0);
    CHECK_FALSE(ggml_row_bytes(GgmlType::q4_k, 255));
    CHECK_FALSE(ggml_row_bytes(GgmlType::q4_k, -256));
    CHECK_FALSE(ggml_row_bytes(GgmlType::f64, std::int64_t{1} << 61));
    CHECK(ggml_bytes(GgmlType::q8_0, {3, 5, 64}) == 3 * 5 * 68);
    CHECK(ggml_bytes(GgmlType::f32, {}) == 4);
    CHECK_FALSE(ggml_bytes(GgmlType::q8_0, {64, 5}));
    CHECK_FALSE(ggml_bytes(GgmlType::f16, {std::int64_t{1} << 40, std::int64_t{1} << 40}));
}

static_assert(traits(GgmlType::iq1_m).block_bytes == 56 && ggml_type_of(39) == GgmlType::mxfp4);
