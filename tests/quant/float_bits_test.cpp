// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/float_bits.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"

#include <bit>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise_test::count_differences;
using shardwise_test::from_hex;

namespace {

/// FNV-1a over the little-endian bytes of each value's float.
template <class Decode>
std::string hash_of_halves(Decode decode) {
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (std::uint32_t half = 0; half < 65536; ++half) {
        auto const bits = std::bit_cast<std::uint32_t>(decode(static_cast<std::uint16_t>(half)));
        for (unsigned shift = 0; shift < 32; shift += 8) hash = (hash ^ ((bits >> shift) & 0xFFU)) * 0x100000001B3U;
    }
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    return text;
}

template <class Decode>
std::vector<float> all_bytes(Decode decode) {
    std::vector<float> values;
    for (int i = 0; i < 256; ++i) values.push_back(decode(static_cast<std::uint8_t>(i)));
    return values;
}

}  // namespace

TEST_CASE("Every value of the small floats equals torch's in every bit") {
    int checked = 0;
    for (auto const& line : shardwise_test::golden_lines("floats.txt")) {
        CAPTURE(line[0]);
        if (line[0] == "e4m3") CHECK(count_differences(all_bytes(from_e4m3), from_hex<float>(line[1])) == 0);
        if (line[0] == "e5m2") CHECK(count_differences(all_bytes(from_e5m2), from_hex<float>(line[1])) == 0);
        if (line[0] == "e8m0") {
            auto expected = from_hex<float>(line[1]);
            CHECK(std::isnan(from_e8m0(255)));
            // torch's is a signalling NaN.
            expected[255] = from_e8m0(255);
            CHECK(count_differences(all_bytes(from_e8m0), expected) == 0);
        }
        if (line[0] == "f16") CHECK(hash_of_halves(from_f16) == line[1]);
        if (line[0] == "bf16") CHECK(hash_of_halves(from_bf16) == line[1]);
        ++checked;
    }
    CHECK(checked == 6);
}

TEST_CASE("Rounding to sixteen bits is torch's, at ties and subnormals too") {
    for (auto const& line : shardwise_test::golden_lines("floats.txt")) {
        if (line[0] != "round") continue;
        auto const values = from_hex<float>(line[1]);
        auto const halves = from_hex<std::uint16_t>(line[2]);
        auto const brains = from_hex<std::uint16_t>(line[3]);
        REQUIRE(values.size() > 1000);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (to_f16(values[i]) != halves[i] || to_bf16(values[i]) != brains[i]) ++wrong;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("Sixteen-bit values survive the way to float and back") {
    std::size_t wrong = 0;
    for (std::uint32_t i = 0; i < 65536; ++i) {
        auto const bits = static_cast<std::uint16_t>(i);
        if (!std::isnan(from_f16(bits)) && to_f16(from_f16(bits)) != bits) ++wrong;
        if (!std::isnan(from_bf16(bits)) && to_bf16(from_bf16(bits)) != bits) ++wrong;
        if (std::isnan(from_f16(bits)) && !std::isnan(from_f16(to_f16(from_f16(bits))))) ++wrong;
        if (std::isnan(from_bf16(bits)) && !std::isnan(from_bf16(to_bf16(from_bf16(bits))))) ++wrong;
    }
    CHECK(wrong == 0);
}

TEST_CASE("The sixteen four-bit floats are those of the OCP table") {
    constexpr float magnitudes[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    for (unsigned i = 0; i < 8; ++i) {
        CHECK(from_e2m1(static_cast<std::uint8_t>(i)) == magnitudes[i]);
        CHECK(from_e2m1(static_cast<std::uint8_t>(i + 8)) == -magnitudes[i]);
    }
    CHECK(std::signbit(from_e2m1(8)));
}

static_assert(from_f16(0x3C00) == 1.0F && from_bf16(0x3F80) == 1.0F && from_e4m3(0x38) == 1.0F);
static_assert(to_f16(65519.0F) == 0x7BFF && to_f16(65520.0F) == 0x7C00);
