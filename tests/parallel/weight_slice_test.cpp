// SPDX-License-Identifier: Apache-2.0
#include <shardwise/parallel/weight_slice.hpp>

#include <doctest/doctest.h>

#include "stored_weight.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t outputs = 5;

}  // namespace

TEST_CASE("weight_slice: rows and inputs of every format decode to what they decode to in the whole") {
    constexpr std::int64_t inputs = 1024;
    for (auto const format : all_weight_formats) {
        CAPTURE(name_of(format));
        Stored const stored(format, outputs, inputs);
        auto const whole = decoded(stored.source);
        UnitRange const rows[] = {{3, 5}, {0, 1}};
        for (UnitRange const columns : {UnitRange{0, inputs}, UnitRange{256, 768}, UnitRange{512, 512}}) {
            auto const slice = slice_weight(stored.source, rows, columns);
            REQUIRE(slice);
            CHECK(slice->source().outputs == 3);
            CHECK(slice->source().inputs == columns.size());
            auto const part = decoded(slice->source());
            Doubles expected;
            for (std::int64_t const row : {3, 4, 0}) {
                expected.insert(expected.end(), whole.begin() + row * inputs + columns.begin,
                                whole.begin() + row * inputs + columns.end);
            }
            CHECK(part == expected);
        }
    }
}

TEST_CASE("weight_slice: rows that lie together are not copied") {
    Stored const stored(WeightFormat::q8_0, outputs, 64);
    UnitRange const rows[] = {{1, 4}};
    auto const slice = slice_weight(stored.source, rows, {0, 64});
    REQUIRE(slice);
    CHECK(slice->source().data.data() == stored.data.data() + detail::data_bytes(WeightFormat::q8_0, 64));
}

TEST_CASE("weight_slice: parted blocks, ranges outside and bytes that are not the shape's are refused") {
    UnitRange const all[] = {{0, outputs}};
    Stored const blocks(WeightFormat::q4_0, outputs, 64);
    auto const parted = slice_weight(blocks.source, all, {0, 40});
    CHECK(parted.error().message() ==
          "weight: inputs: the range parts a block of q4_0 (got 40, expected a multiple of 32); cut where blocks begin");
    Stored const groups(WeightFormat::int4, outputs, 80);
    CHECK(slice_weight(groups.source, all, {32, 80}));
    CHECK(slice_weight(groups.source, all, {16, 80}).error().code() == ErrorCode::invalid_argument);
    CHECK(slice_weight(blocks.source, all, {0, 96}).error().code() == ErrorCode::shape_mismatch);
    UnitRange const outside[] = {{4, 6}};
    CHECK(slice_weight(blocks.source, outside, {0, 64}).error().code() == ErrorCode::shape_mismatch);
    auto cut = blocks.source;
    cut.data = cut.data.first(10);
    CHECK(slice_weight(cut, all, {0, 64}).error().code() == ErrorCode::shape_mismatch);
    auto scaled = Stored(WeightFormat::int8, outputs, 64);
    scaled.source.scales = {};
    CHECK(slice_weight(scaled.source, all, {0, 64}).error().code() == ErrorCode::shape_mismatch);
}
