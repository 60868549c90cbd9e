// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/ggml_file_type.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <string>

using namespace shardwise;

TEST_CASE("Numbers and names of file types are those of the gguf package") {
    std::size_t known = 0;
    for (auto const& line : shardwise_test::golden_lines("ggml_file_types.txt")) {
        CAPTURE(line[1]);
        auto const file_type = parse_ggml_file_type(line[1]);
        REQUIRE(file_type);
        CHECK(static_cast<unsigned long>(*file_type) == std::stoul(line[0]));
        CHECK(name_of(*file_type) == line[1]);
        ++known;
    }
    // The package does not know Q2_0 yet.
    CHECK(known == ggml_file_type_table.size() - 1);
}

TEST_CASE("File types parse in any case") {
    CHECK(parse_ggml_file_type("q4_k_m") == GgmlFileType::q4_k_m);
    CHECK(traits(GgmlFileType::iq3_xs).usual == GgmlType::iq3_s);
    CHECK_FALSE(parse_ggml_file_type("Q4_K"));
}
