// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/packed_weight.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace shardwise;

TEST_CASE("packed_weight_bytes: whole panels of sixteen outputs, each a whole number of cache lines") {
    static_assert(packed_weight_bytes(WeightFormat::f32, 16, 10) == Bytes{16 * 10 * 4});
    static_assert(packed_weight_bytes(WeightFormat::f32, 17, 10) == Bytes{32 * 10 * 4});
    static_assert(packed_weight_bytes(WeightFormat::bf16, 16, 10) == Bytes{16 * 10 * 2});
    // An odd number of inputs is filled up to a pair; halves to a line of 32.
    static_assert(packed_weight_bytes(WeightFormat::bf16, 16, 11) == Bytes{16 * 12 * 2});
    static_assert(packed_weight_bytes(WeightFormat::f16, 16, 11) == Bytes{16 * 12 * 2});
    static_assert(packed_weight_bytes(WeightFormat::q4_0, 11008, 4096) == Bytes{11008LL * 4096 / 32 * 18});
    CHECK(packed_weight_bytes(WeightFormat::f32, 0, 10) == Bytes{0});
    CHECK(packed_weight_bytes(WeightFormat::f32, 10, 0) == Bytes{0});
}

TEST_CASE("packed_weight_bytes: nothing for extents that are negative or whose bytes leave 63 bits") {
    constexpr std::int64_t huge = std::int64_t{1} << 60U;
    for (auto const format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8,
                              WeightFormat::int4, WeightFormat::nf4, WeightFormat::mxfp4, WeightFormat::q6_k}) {
        CHECK_FALSE(packed_weight_bytes(format, -1, 256, 32));
        CHECK_FALSE(packed_weight_bytes(format, 16, -256, 32));
        CHECK_FALSE(packed_weight_bytes(format, huge, huge, 32));
        CHECK_FALSE(packed_weight_bytes(format, 16, huge, 1));
    }
}
