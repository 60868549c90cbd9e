// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/kernels/detail/device_chunk.hpp>
#include <shardwise/kernels/detail/nearest_byte.hpp>
#include <shardwise/quant/decode_legacy.hpp>
#include <shardwise/quant/encode_legacy.hpp>

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

using namespace shardwise;
using detail::DeviceChunk;
using detail::DeviceWeightView;
using detail::Pack16;

namespace {

/// A chunk's elements times their scale.
template <WeightFormat format>
std::vector<float> decode(DeviceWeightView const& weight, std::int64_t output, std::int64_t chunk) {
    std::vector<float> values;
    auto const pack = detail::load_pack(weight.rows + output * weight.row_bytes + 16 * chunk);
    for (int four = 0; four < DeviceChunk<format>::elements / 4; ++four) {
        float quants[4];
        DeviceChunk<format>::decode(pack, four, quants);
        for (auto const quant : quants) values.push_back(quant * DeviceChunk<format>::scale(weight, output, chunk));
    }
    return values;
}

}  // namespace

TEST_CASE("Device numbers: every half and bfloat16 widens to the value that the formats' reference gives, and back") {
    for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
        Float16 half;
        half.bits = static_cast<std::uint16_t>(bits);
        Bfloat16 brain;
        brain.bits = static_cast<std::uint16_t>(bits);
        auto const half_float = detail::widen(half);
        auto const brain_float = detail::widen(brain);
        REQUIRE(std::bit_cast<std::uint32_t>(half_float) == std::bit_cast<std::uint32_t>(static_cast<float>(half)));
        REQUIRE(std::bit_cast<std::uint32_t>(brain_float) == std::bit_cast<std::uint32_t>(static_cast<float>(brain)));
        Float16 half_back;
        Bfloat16 brain_back;
        detail::narrow(half_float, half_back);
        detail::narrow(brain_float, brain_back);
        REQUIRE(half_back.bits == to_f16(half_float));
        REQUIRE(brain_back.bits == to_bf16(brain_float));
    }
}

TEST_CASE("Device numbers: floats between two bfloat16 round to the nearest, ties to even") {
    for (std::uint32_t high : {0x3F80U, 0x3F81U, 0xBF81U, 0x0000U, 0x7F7FU, 0x7F80U, 0x7FC0U}) {
        for (std::uint32_t low : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
            auto const value = std::bit_cast<float>(high << 16U | low);
            Bfloat16 narrow;
            detail::narrow(value, narrow);
            CHECK(narrow.bits == to_bf16(value));
        }
    }
}

TEST_CASE("DeviceChunk: the chunks of a packed weight are the elements of its checkpoint, bit for bit") {
    // Two rows of two blocks each, as hold_weight lays them out: quants first, then the scales.
    constexpr std::int64_t inputs = 64;
    std::array<std::uint8_t, 4 * 18> q4{};
    std::array<std::uint8_t, 4 * 34> q8{};
    for (std::size_t i = 0; i < q4.size(); ++i) q4[i] = static_cast<std::uint8_t>(i * 37 + 11);
    for (std::size_t i = 0; i < q8.size(); ++i) q8[i] = static_cast<std::uint8_t>(i * 53 + 7);
    alignas(16) std::array<std::byte, 4 * 18> q4_packed{};
    alignas(16) std::array<std::byte, 4 * 34> q8_packed{};
    for (std::size_t block = 0; block < 4; ++block) {
        auto const scale = Float16(0.25F * static_cast<float>(block + 1));
        std::memcpy(q4.data() + block * 18, &scale.bits, 2);
        std::memcpy(q8.data() + block * 34, &scale.bits, 2);
        std::memcpy(q4_packed.data() + block * 16, q4.data() + block * 18 + 2, 16);
        std::memcpy(q4_packed.data() + 64 + block * 2, &scale.bits, 2);
        std::memcpy(q8_packed.data() + block * 32, q8.data() + block * 34 + 2, 32);
        std::memcpy(q8_packed.data() + 128 + block * 2, &scale.bits, 2);
    }
    DeviceWeightView const q4_view{WeightFormat::q4_0, 2, inputs, q4_packed.data(), 32, q4_packed.data() + 64,
                                   inputs / 32};
    DeviceWeightView const q8_view{WeightFormat::q8_0, 2, inputs, q8_packed.data(), 64, q8_packed.data() + 128,
                                   inputs / 32};
    for (std::size_t block = 0; block < 4; ++block) {
        auto const output = static_cast<std::int64_t>(block / 2);
        auto const within = static_cast<std::int64_t>(block % 2);
        std::array<float, 32> expected{};
        decode_q4_0(std::span<std::uint8_t const, 18>(q4.data() + block * 18, 18), expected);
        CHECK(decode<WeightFormat::q4_0>(q4_view, output, within) ==
              std::vector<float>(expected.begin(), expected.end()));
        decode_q8_0(std::span<std::uint8_t const, 34>(q8.data() + block * 34, 34), expected);
        auto values = decode<WeightFormat::q8_0>(q8_view, output, 2 * within);
        auto const rest = decode<WeightFormat::q8_0>(q8_view, output, 2 * within + 1);
        values.insert(values.end(), rest.begin(), rest.end());
        CHECK(values == std::vector<float>(expected.begin(), expected.end()));
    }
}

TEST_CASE("DeviceChunk: int8 takes its row's scale, and signs are kept") {
    alignas(16) std::array<std::byte, 32 + 8> packed{};
    for (std::size_t i = 0; i < 32; ++i) packed[i] = static_cast<std::byte>(i * 9);
    std::array<float, 2> const scales{0.5F, 0.25F};
    std::memcpy(packed.data() + 32, scales.data(), 8);
    DeviceWeightView const view{WeightFormat::int8, 2, 16, packed.data(), 16, packed.data() + 32, 0};
    for (std::int64_t output = 0; output < 2; ++output) {
        auto const values = decode<WeightFormat::int8>(view, output, 0);
        for (std::size_t i = 0; i < 16; ++i) {
            auto const byte =
                static_cast<std::int8_t>(static_cast<std::uint8_t>((static_cast<std::size_t>(output) * 16 + i) * 9));
            CHECK(values[i] == scales[static_cast<std::size_t>(output)] * static_cast<float>(byte));
        }
    }
}

TEST_CASE("nearest_byte rounds as the encoder of int8 does, halves, infinities and NaN too") {
    auto const expected = [](float value) { return detail::round_even_within(value, -127, 127); };
    int wrong = 0;
    // All multiples of 2^-12 up to 130, and what lies beside each.
    for (int i = -130 * 4096; i <= 130 * 4096; ++i) {
        auto const value = static_cast<float>(i) / 4096.0F;
        for (float const near : {value, std::nextafter(value, 1e9F), std::nextafter(value, -1e9F)})
            wrong += detail::nearest_byte(near) == expected(near) ? 0 : 1;
    }
    // Every exponent and sign.
    for (std::uint32_t high = 0; high < 1024; ++high) {
        for (std::uint32_t const low : {0U, 1U, 0x3FFFFFU}) {
            auto const value = std::bit_cast<float>(high << 22U | low);
            wrong += detail::nearest_byte(value) == expected(value) ? 0 : 1;
        }
    }
    CHECK(wrong == 0);
}
