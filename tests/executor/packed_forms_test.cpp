// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/packed_forms.hpp>
#include <shardwise/quant/nf4_values.hpp>

#include <doctest/doctest.h>

#include "../quant/golden_lines.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

/// What is loaded of packed checkpoints has the bits that those compute who write them (tests/golden/quant).
namespace {

using namespace shardwise;
using shardwise_test::count_differences;
using shardwise_test::from_hex;

std::vector<float> decode_whole(PackedWeight const& weight) {
    std::vector<float> out(static_cast<std::size_t>(weight.outputs * weight.inputs));
    detail::traits(weight.form).decode(weight, {0, weight.outputs}, {0, weight.inputs}, out.data());
    return out;
}

template <class T>
std::span<std::byte const> bytes_of(std::vector<T> const& values) {
    return std::as_bytes(std::span(values));
}

/// Words with zero points and half-precision scales, which outlive it.
PackedWeight packed_words(PackedForm form, std::vector<std::uint32_t> const& words,
                          std::vector<std::uint32_t> const& zeros, std::vector<std::uint16_t> const& scales) {
    PackedWeight weight;
    weight.form = form;
    weight.data = bytes_of(words);
    weight.zeros = bytes_of(zeros);
    weight.scales = bytes_of(scales);
    weight.scale_dtype = Dtype::f16;
    return weight;
}

}  // namespace

TEST_CASE("packed forms: AWQ's words unpack in the order 0, 2, 4, 6, 1, 3, 5, 7") {
    auto const lines = shardwise_test::golden_lines("awq.txt");
    REQUIRE(lines.size() == 1);
    auto const& line = lines[0];
    auto const qweight = from_hex<std::uint32_t>(line[3]);
    auto const qzeros = from_hex<std::uint32_t>(line[4]);
    auto const scales = from_hex<std::uint16_t>(line[5]);
    auto weight = packed_words(PackedForm::awq, qweight, qzeros, scales);
    weight.inputs = std::stoll(line[0]);
    weight.outputs = std::stoll(line[1]);
    weight.group = std::stoll(line[2]);
    CHECK(count_differences(decode_whole(weight), from_hex<float>(line[6])) == 0);
}

TEST_CASE("packed forms: GPTQ's words of 2, 3, 4 and 8 bits unpack to what was packed, activation order included") {
    std::set<std::int64_t> seen;
    for (auto const& line : shardwise_test::golden_lines("gptq.txt")) {
        CAPTURE(line[0]);
        auto const qweight = from_hex<std::uint32_t>(line[4]);
        auto const qzeros = from_hex<std::uint32_t>(line[5]);
        auto const scales = from_hex<std::uint16_t>(line[6]);
        auto const g_idx = from_hex<std::int32_t>(line[7]);
        auto weight = packed_words(PackedForm::gptq, qweight, qzeros, scales);
        weight.bits = std::stoll(line[0]);
        weight.inputs = std::stoll(line[1]);
        weight.outputs = std::stoll(line[2]);
        weight.index = bytes_of(g_idx);
        CHECK(count_differences(decode_whole(weight), from_hex<float>(line[8])) == 0);
        seen.insert(weight.bits);
    }
    CHECK(seen == std::set<std::int64_t>{2, 3, 4, 8});
}

TEST_CASE(
    "packed forms: four-bit codes, absmax of double quantisation and int8 rows decode as bitsandbytes decodes them") {
    int codes = 0;
    int weights = 0;
    int nested = 0;
    int rows = 0;
    std::vector<float> fp4;
    for (auto const& line : shardwise_test::golden_lines("bitsandbytes.txt")) {
        CAPTURE(line[0]);
        PackedWeight weight;
        weight.outputs = 1;
        if (line[0] == "code") {
            auto const expected = from_hex<float>(line[2]);
            if (line[1] == "nf4")
                CHECK(count_differences({nf4_values.begin(), nf4_values.end()}, expected) == 0);
            else
                fp4 = expected;
            ++codes;
        } else if (line[0] == "4bit") {
            auto const packed = from_hex<std::uint8_t>(line[2]);
            auto const absmax = from_hex<float>(line[3]);
            auto const expected = from_hex<float>(line[4]);
            weight.form = PackedForm::bnb_4bit;
            weight.inputs = static_cast<std::int64_t>(expected.size());
            weight.data = bytes_of(packed);
            weight.scales = bytes_of(absmax);
            weight.code = nf4_values;
            if (line[1] == "fp4") {
                REQUIRE(fp4.size() == 16);
                for (std::size_t i = 0; i < 16; ++i) weight.code[i] = fp4[i];
                // The printed code has no negative zero; the kernels have.
                weight.code[8] = -0.0F;
            }
            CHECK(count_differences(decode_whole(weight), expected) == 0);
            ++weights;
        } else if (line[0] == "absmax") {
            auto const quantised = from_hex<std::uint8_t>(line[1]);
            auto const nested_absmax = from_hex<float>(line[2]);
            auto const nested_code = from_hex<float>(line[3]);
            REQUIRE(nested_code.size() == 256);
            weight.scales = bytes_of(quantised);
            weight.nested_absmax = bytes_of(nested_absmax);
            weight.nested_code = bytes_of(nested_code);
            weight.nested_offset = from_hex<float>(line[4])[0];
            std::vector<float> absmax;
            for (std::size_t i = 0; i < quantised.size(); ++i)
                absmax.push_back(detail::absmax_at(weight, static_cast<std::int64_t>(i)));
            CHECK(count_differences(absmax, from_hex<float>(line[5])) == 0);
            ++nested;
        } else if (line[0] == "int8") {
            auto const packed = from_hex<std::int8_t>(line[1]);
            auto const absmax = from_hex<float>(line[2]);
            weight.form = PackedForm::bnb_int8;
            weight.outputs = static_cast<std::int64_t>(absmax.size());
            weight.inputs = static_cast<std::int64_t>(packed.size() / absmax.size());
            weight.data = bytes_of(packed);
            weight.scales = bytes_of(absmax);
            CHECK(count_differences(decode_whole(weight), from_hex<float>(line[3])) == 0);
            ++rows;
        }
    }
    CHECK(codes == 2);
    CHECK(weights == 4);
    CHECK(nested == 2);
    CHECK(rows == 1);
}

TEST_CASE("packed forms: E4M3 matrices with ragged blocks come out as torch computes them") {
    bool found = false;
    for (auto const& line : shardwise_test::golden_lines("fp8_mxfp4.txt")) {
        if (line[0] != "fp8") continue;
        found = true;
        auto const data = from_hex<std::uint8_t>(line[5]);
        auto const scales = from_hex<float>(line[6]);
        PackedWeight weight;
        weight.form = PackedForm::fp8;
        weight.outputs = std::stoll(line[1]);
        weight.inputs = std::stoll(line[2]);
        weight.block_rows = std::stoll(line[3]);
        weight.block_columns = std::stoll(line[4]);
        weight.data = bytes_of(data);
        weight.scales = bytes_of(scales);
        CHECK(count_differences(decode_whole(weight), from_hex<float>(line[7])) == 0);
    }
    CHECK(found);
}
