// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/shape.hpp>

#include <doctest/doctest.h>

namespace {

using namespace shardwise;

TEST_CASE("dtype_table: rows stand in the order of the enumeration") {
    for (std::size_t i = 0; i < dtype_table.size(); ++i) {
        CHECK(static_cast<std::size_t>(dtype_table[i].dtype) == i);
    }
}

TEST_CASE("parse_dtype: every name of every type is found again, in any case") {
    for (auto const& row : dtype_table) {
        CHECK(parse_dtype(row.torch_name) == row.dtype);
        CHECK(parse_dtype(row.safetensors_name) == row.dtype);
        CHECK(parse_dtype(row.short_name) == row.dtype);
    }
    CHECK(parse_dtype("BFloat16") == Dtype::bf16);
    CHECK(parse_dtype("torch.float16") == Dtype::f16);
    CHECK(parse_dtype("fp8") == Dtype::f8_e4m3);
    CHECK(parse_dtype("INT4") == Dtype::i4);
    CHECK(!parse_dtype("bfloat17"));
    CHECK(!parse_dtype(""));
    CHECK(!parse_dtype("torch."));
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
