// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/detail/device_numbers.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/kernels/detail/device_chunk.hpp>
#include <shardwise/kernels/detail/nearest_byte.hpp>
#include <shardwise/quant/encode_legacy.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using namespace shardwise;
using detail::DeviceChunk;
using detail::DeviceWeightView;
using detail::Pack16;

namespace {

/// Elements of a row, chunk by chunk.
template <WeightFormat format>
std::vector<float> decode(DeviceWeightView const& weight, std::int64_t output) {
    using Chunk = DeviceChunk<format>;
    float codes[16] = {};
    for (int code = 0; code < 16; ++code) Chunk::fill_codes(codes, code);
    std::vector<float> values;
    for (std::int64_t chunk = 0; chunk * Chunk::elements < weight.inputs; ++chunk) {
        auto const pack = detail::load_pack(weight.rows + output * weight.row_bytes + 16 * chunk);
        auto const rest = Chunk::load_rest(weight, output, chunk);
        for (int four = 0; four < Chunk::elements / 4; ++four) {
            float quants[4];
            detail::decode_elements<format>(pack, rest, four, codes, quants);
            for (auto value : quants) {
                if constexpr (Chunk::has_row_scale) value *= Chunk::row_scale(weight, output);
                values.push_back(value);
            }
        }
    }
    values.resize(static_cast<std::size_t>(weight.inputs));
    return values;
}

template <std::size_t... format>
std::vector<float> decode_any(DeviceWeightView const& weight, std::int64_t output, std::index_sequence<format...>) {
    using Decode = std::vector<float> (*)(DeviceWeightView const&, std::int64_t);
    constexpr Decode decoders[] = {&decode<static_cast<WeightFormat>(format)>...};
    return decoders[static_cast<std::size_t>(weight.format)](weight, output);
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

TEST_CASE(
    "DeviceChunk: the chunks of a packed weight are the elements of its checkpoint, bit for bit, in every format") {
    constexpr std::int64_t outputs = 3;
    constexpr std::int64_t inputs = 512;
    constexpr std::int64_t group = 64;
    std::mt19937 random(5);
    for (auto const& unit : weight_format_table) {
        CAPTURE(unit.name);
        auto const data_row = detail::data_bytes(unit.format, inputs);
        auto const scale_row = detail::scale_bytes(unit.format, inputs, group);
        // Any bytes: of the numbers that they are, all but NaN are compared, and NaN with NaN.
        std::vector<std::byte> data(static_cast<std::size_t>(outputs * data_row));
        std::vector<std::byte> scales(static_cast<std::size_t>(outputs * scale_row));
        for (auto* const bytes : {&data, &scales}) {
            for (auto& byte : *bytes) byte = static_cast<std::byte>(random());
        }
        auto const layout = detail::device_row_layout(unit.format, inputs, group);
        std::vector<Pack16> memory(static_cast<std::size_t>(layout.bytes(outputs) / 16 + 1));
        auto* const packed = reinterpret_cast<std::byte*>(memory.data());
        for (std::int64_t row = 0; row < outputs; ++row) {
            detail::device_format(unit.format)
                .pack({data.data() + row * data_row, scales.data() + row * scale_row, group}, inputs,
                      {packed + row * layout.row_bytes(), packed + layout.first_plane(outputs) + row * layout.planes,
                       packed + layout.first_scale(outputs) + row * layout.scales,
                       packed + layout.first_super(outputs) + row * layout.supers, group});
        }
        auto const scale_bytes = detail::device_format(unit.format).scale_bytes;
        DeviceWeightView const view{.format = unit.format,
                                    .outputs = outputs,
                                    .inputs = inputs,
                                    .rows = packed,
                                    .row_bytes = layout.row_bytes(),
                                    .planes = packed + layout.first_plane(outputs),
                                    .scales = packed + layout.first_scale(outputs),
                                    .scale_row = scale_bytes > 0 ? layout.scales / scale_bytes : 0,
                                    .supers = packed + layout.first_super(outputs),
                                    .block_row = inputs / 32,
                                    .scale_shift = 1};
        for (std::int64_t row = 0; row < outputs; ++row) {
            std::vector<float> expected(inputs);
            unit.decode({data.data() + row * data_row, scales.data() + row * scale_row, group}, 0, inputs,
                        expected.data());
            auto const values = decode_any(view, row, std::make_index_sequence<weight_format_count>{});
            REQUIRE(values.size() == expected.size());
            for (std::size_t i = 0; i < values.size(); ++i) {
                CAPTURE(i);
                if (std::isnan(expected[i])) {
                    REQUIRE(std::isnan(values[i]));
                } else {
                    REQUIRE(std::bit_cast<std::uint32_t>(values[i]) == std::bit_cast<std::uint32_t>(expected[i]));
                }
            }
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
