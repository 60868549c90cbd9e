#include <shardwise/parallel/weight_slice.hpp>

#include <doctest/doctest.h>

#include "parallel_cases.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t outputs = 5;
constexpr std::int64_t group = 32;

/// Random bytes of every format that decode to finite numbers, with bytes that cannot be told from the format's own.
struct Stored {
    std::vector<std::byte> data;
    std::vector<std::byte> scales;
    WeightSource source;

    Stored(WeightFormat format, std::int64_t inputs) {
        std::mt19937 random(static_cast<unsigned>(format) + 1U);
        source = {.format = format, .outputs = outputs, .inputs = inputs, .data = {}, .scales = {}};
        if (format == WeightFormat::int4) source.group = group;
        data.resize(index(outputs * detail::data_bytes(format, inputs)));
        // Low bytes: no exponent that leaves the finite numbers, whatever they are read as.
        for (auto& byte : data) byte = static_cast<std::byte>(random() % 0x38U);
        auto const row_scales = format == WeightFormat::int8 ? 4 : detail::scale_bytes(format, inputs, source.group);
        scales.resize(index(outputs * row_scales));
        for (auto& byte : scales) byte = static_cast<std::byte>(random() % 0x38U);
        source.data = data;
        source.scales = scales;
    }
};

constexpr WeightFormat formats[] = {WeightFormat::f32,  WeightFormat::bf16, WeightFormat::f16,   WeightFormat::int8,
                                    WeightFormat::int4, WeightFormat::nf4,  WeightFormat::mxfp4, WeightFormat::q4_0,
                                    WeightFormat::q4_1, WeightFormat::q5_0, WeightFormat::q5_1,  WeightFormat::q8_0,
                                    WeightFormat::q4_k, WeightFormat::q5_k, WeightFormat::q6_k};

}  // namespace

TEST_CASE("weight_slice: rows and inputs of every format decode to what they decode to in the whole") {
    constexpr std::int64_t inputs = 1024;
    for (auto const format : formats) {
        CAPTURE(name_of(format));
        Stored const stored(format, inputs);
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
    Stored const stored(WeightFormat::q8_0, 64);
    UnitRange const rows[] = {{1, 4}};
    auto const slice = slice_weight(stored.source, rows, {0, 64});
    REQUIRE(slice);
    CHECK(slice->source().data.data() == stored.data.data() + detail::data_bytes(WeightFormat::q8_0, 64));
}

TEST_CASE("weight_slice: parted blocks, ranges outside and bytes that are not the shape's are refused") {
    UnitRange const all[] = {{0, outputs}};
    Stored const blocks(WeightFormat::q4_0, 64);
    auto const parted = slice_weight(blocks.source, all, {0, 40});
    CHECK(parted.error().message() ==
          "weight: inputs: the range parts a block of q4_0 (got 40, expected 32); cut where blocks begin");
    Stored const groups(WeightFormat::int4, 80);
    CHECK(slice_weight(groups.source, all, {32, 80}));
    CHECK(slice_weight(groups.source, all, {16, 80}).error().code() == ErrorCode::invalid_argument);
    CHECK(slice_weight(blocks.source, all, {0, 96}).error().code() == ErrorCode::shape_mismatch);
    UnitRange const outside[] = {{4, 6}};
    CHECK(slice_weight(blocks.source, outside, {0, 64}).error().code() == ErrorCode::shape_mismatch);
    auto cut = blocks.source;
    cut.data = cut.data.first(10);
    CHECK(slice_weight(cut, all, {0, 64}).error().code() == ErrorCode::shape_mismatch);
    auto scaled = Stored(WeightFormat::int8, 64);
    scaled.source.scales = {};
    CHECK(slice_weight(scaled.source, all, {0, 64}).error().code() == ErrorCode::shape_mismatch);
}
