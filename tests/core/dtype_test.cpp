// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/shape.hpp>

#include <doctest/doctest.h>

#include <initializer_list>
#include <utility>

namespace {

using namespace shardwise;

TEST_CASE("dtype_table: rows stand in the order of the enumeration") {
    for (std::size_t i = 0; i < dtype_table.size(); ++i) {
        CHECK(static_cast<std::size_t>(dtype_table[i].dtype) == i);
    }
}

TEST_CASE("parse_dtype: every name of every type is found again, in any case") {
    for (auto const& [word, width] : std::initializer_list<std::pair<char const*, int>>{
             {"float8_e4m3fnuz", 8}, {"F8_E5M2FNUZ", 8}, {"complex32", 32}, {"quint8", 8}, {"qint8", 8}, {"qint32", 32},
             {"quint4x2", 4}, {"quint2x4", 2}, {"bits8", 8}, {"bits16", 16}, {"torch.bits1x8", 8}}) {
        std::string_view const name = word;
        CAPTURE(name);
        auto const dtype = parse_dtype(name);
        REQUIRE(dtype);
        CHECK(bits(*dtype) == width);
    }
}

TEST_CASE("storage_bytes: rounds packed elements up and refuses what leaves 63 bits") {
    CHECK(storage_bytes(Dtype::i4, 3) == 2);
    CHECK(storage_bytes(Dtype::bf16, 3) == 6);
    CHECK(storage_bytes(Dtype::f32, 0) == 0);
    CHECK(!storage_bytes(Dtype::f64, INT64_MAX / 4));
}

TEST_CASE("Shape: counts elements and notices overflow") {
    CHECK(Shape{}.elements() == 1);
    CHECK(Shape{2, 0}.checked_elements() == 0);
    CHECK(Shape{3, 4, 5}.checked_elements() == 60);
    // The product wraps around to 4 in 64 bits (facts/model_files.md, row 20).
    CHECK(!Shape{4194305, 4194305, 211106198978564}.checked_elements());
    CHECK(Shape{2, 3} == Shape{2, 3});
    CHECK(!(Shape{2, 3} == Shape{2, 3, 1}));
}

}  // namespace
