// SPDX-License-Identifier: Apache-2.0
#include <shardwise/quant/decode_ggml.hpp>
#include <shardwise/quant/decode_microscaling.hpp>
#include <shardwise/quant/encode_int4.hpp>
#include <shardwise/quant/nf4_values.hpp>
#include <shardwise/quant/scheme.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

using namespace shardwise;

namespace {

/// A row of random codes, with scales that are numbers.
struct Row {
    static constexpr std::int64_t inputs = 512;
    static constexpr std::int64_t group = 64;

    explicit Row(WeightFormat format) {
        std::mt19937 random(static_cast<unsigned>(format) + 7);
        data.resize(static_cast<std::size_t>(detail::data_bytes(format, inputs)));
        scales.resize(static_cast<std::size_t>(detail::scale_bytes(format, inputs, group)));
        for (auto& byte : data) byte = static_cast<std::byte>(random());
        // Bytes of small positive numbers, whatever they are read as.
        for (auto& byte : scales) byte = std::byte{0x3c};
    }
    [[nodiscard]] std::vector<float> decode(WeightFormat format) const {
        std::vector<float> out(static_cast<std::size_t>(inputs));
        traits(format).decode({data.data(), scales.data(), group}, 0, inputs, out.data());
        return out;
    }
    [[nodiscard]] std::uint8_t const* bytes() const { return reinterpret_cast<std::uint8_t const*>(data.data()); }

    std::vector<std::byte> data;
    std::vector<std::byte> scales;
};

/// Compares bits: a NaN is itself.
bool is_same(std::vector<float> const& a, std::vector<float> const& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
               return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
           });
}

}  // namespace

TEST_CASE("weight formats: what stores them says so in each vocabulary, and leads back to the format") {
    for (auto const& row : weight_format_table) {
        CAPTURE(row.name);
        CHECK((row.ggml || row.dtype || row.method));
        if (row.dtype) {
            auto const& dtype = traits(*row.dtype);
            for (auto const name : {dtype.torch_name, dtype.safetensors_name, dtype.short_name})
                CHECK(weight_format(parse_dtype(name).value()) == row.format);
            CHECK(row.name == dtype.short_name);
            CHECK(row.bits == bits(*row.dtype));
        }
        if (row.ggml) {
            CHECK(weight_format(parse_ggml_type(name_of(*row.ggml)).value()) == row.format);
            CHECK(row.block_elements == traits(*row.ggml).block_elements);
            CHECK(row.block_bytes == traits(*row.ggml).block_bytes);
            CHECK(can_decode(*row.ggml));
            CHECK(can_encode(*row.ggml) == (row.encode != nullptr));
        }
        if (row.ggml_reordered) {
            CHECK_FALSE(row.ggml);
            CHECK(reordered_format(*row.ggml_reordered) == row.format);
            CHECK_FALSE(weight_format(*row.ggml_reordered));
        }
        if (row.method) {
            auto const scheme = parse_quant_scheme(row.name);
            REQUIRE(scheme);
            CHECK(weight_format(scheme->method) == row.format);
            CHECK(traits(*row.method).name == row.name);
        }
    }
}

TEST_CASE("vocabularies: each name of each dtype, type, file type and method leads back to it") {
    for (auto const& row : dtype_table) {
        CAPTURE(row.torch_name);
        for (auto const name : {row.torch_name, row.safetensors_name, row.short_name})
            CHECK(parse_dtype(name) == row.dtype);
    }
    for (auto const& row : detail::ggml_codec_table) CHECK(parse_ggml_type(name_of(row.type)) == row.type);
    for (auto const& row : ggml_file_type_table) {
        CHECK(parse_ggml_file_type(row.name) == row.file_type);
        CHECK(parse_quant_scheme(row.name).value() == QuantScheme::ggml(row.file_type));
    }
    for (auto const& row : quant_method_table) {
        if (row.name.empty()) continue;
        CHECK(row.usual.method == row.method);
        CHECK(parse_quant_scheme(row.name).value() == row.usual);
        CHECK(parse_quant_scheme(name_of(row.usual).view()).value() == row.usual);
    }
}

TEST_CASE("weight formats: elements, blocks and scales take the bytes of the formats' own writers") {
    // GGUF's blocks are in ggml-common.h; bitsandbytes, gpt-oss and ours are described in backend/weight_source.hpp.
    struct Expected {
        WeightFormat format;
        std::int64_t data;
        std::int64_t scales;
    };
    for (auto const& row : std::array<Expected, 9>{{{WeightFormat::f32, 2048, 0},
                                                    {WeightFormat::f16, 1024, 0},
                                                    {WeightFormat::int8, 512, 4},
                                                    {WeightFormat::int4, 256, 16},
                                                    {WeightFormat::nf4, 256, 32},
                                                    {WeightFormat::mxfp4, 256, 16},
                                                    {WeightFormat::q5_1, 16 * 24, 0},
                                                    {WeightFormat::q4_k, 2 * 144, 0},
                                                    {WeightFormat::q6_k, 2 * 210, 0}}}) {
        CAPTURE(name_of(row.format));
        CHECK(detail::data_bytes(row.format, 512) == row.data);
        CHECK(detail::scale_bytes(row.format, 512, 64) == row.scales);
    }
    CHECK(detail::data_bytes(WeightFormat::int4, 33) == 17);
    CHECK(detail::scale_bytes(WeightFormat::int4, 33, 20) == 4);
    CHECK(row_multiple(WeightFormat::int4) == 1);
    CHECK(row_multiple(WeightFormat::nf4) == 64);
}

TEST_CASE("weight formats: rows decode bit for bit as the references of their blocks") {
    auto const inputs = static_cast<std::size_t>(Row::inputs);
    for (auto const& unit : weight_format_table) {
        CAPTURE(unit.name);
        Row const row(unit.format);
        std::vector<float> expected(inputs);
        if (unit.ggml) {
            REQUIRE(decode_ggml(*unit.ggml, {row.bytes(), row.data.size()}, expected));
            CHECK(is_same(row.decode(unit.format), expected));
            // A part that begins at a block.
            std::vector<float> part(256);
            unit.decode({row.data.data(), nullptr, 0}, 256, 256, part.data());
            CHECK(is_same(part, {expected.begin() + 256, expected.end()}));
        }
    }

    Row const nf4(WeightFormat::nf4);
    std::vector<float> expected(inputs);
    std::vector<float> absmax(inputs / 64);
    std::memcpy(absmax.data(), nf4.scales.data(), nf4.scales.size());
    // The first element of a byte lies in its high half.
    for (std::size_t i = 0; i < inputs; ++i) {
        auto const byte = unsigned{nf4.bytes()[i / 2]};
        expected[i] = nf4_values[(i % 2 == 0 ? byte >> 4U : byte) & 15U] * absmax[i / 64];
    }
    CHECK(is_same(nf4.decode(WeightFormat::nf4), expected));

    Row const mxfp4(WeightFormat::mxfp4);
    for (std::size_t i = 0; i < inputs / 32; ++i) {
        decode_mxfp4_checkpoint(std::span<std::uint8_t const, 16>(mxfp4.bytes() + 16 * i, 16),
                                std::to_integer<std::uint8_t>(mxfp4.scales[i]),
                                std::span<float>(expected).subspan(32 * i).first<32>());
    }
    CHECK(is_same(mxfp4.decode(WeightFormat::mxfp4), expected));

    Row const int4(WeightFormat::int4);
    std::vector<std::uint16_t> halves(inputs / 64);
    std::memcpy(halves.data(), int4.scales.data(), int4.scales.size());
    // The first element of a byte lies in its low half.
    for (std::size_t i = 0; i < inputs; ++i) {
        auto const q = static_cast<int>(int4.bytes()[i / 2] >> (i % 2 * 4) & 15) - 8;
        expected[i] = from_f16(halves[i / 64]) * static_cast<float>(q);
    }
    CHECK(is_same(int4.decode(WeightFormat::int4), expected));

    Row const int8(WeightFormat::int8);
    float scale = 0.0F;
    std::memcpy(&scale, int8.scales.data(), sizeof scale);
    for (std::size_t i = 0; i < inputs; ++i)
        expected[i] = scale * static_cast<float>(static_cast<std::int8_t>(int8.bytes()[i]));
    CHECK(is_same(int8.decode(WeightFormat::int8), expected));
}

TEST_CASE("weight formats: what a format encodes, it decodes to values no farther away than half a step") {
    std::vector<float> values(static_cast<std::size_t>(Row::inputs));
    std::mt19937 random(3);
    for (auto& value : values) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000.0F;
    for (auto const& unit : weight_format_table) {
        if (unit.encode == nullptr) continue;
        CAPTURE(unit.name);
        Row row(unit.format);
        unit.encode(values, Row::group, {row.data.data(), row.scales.data()});
        auto const found = row.decode(unit.format);
        // The coarsest steps: E2M1 has 4 and 6, NF4 0.72 and 1.
        auto const bound = unit.bits >= 32 ? 0.0F : unit.bits >= 8 ? 0.005F : unit.bits == 5 ? 0.07F : 0.26F;
        for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(found[i] - values[i]) <= bound);
    }
}

TEST_CASE("encode_nf4: a block longer than the values is one; parts that do not fit together are refused") {
    std::vector<float> const values(65, 0.5F);
    std::vector<std::uint8_t> packed(33);
    std::vector<float> absmax(1);
    REQUIRE(encode_nf4(values, packed, absmax, SIZE_MAX));
    CHECK(absmax[0] == 0.5F);
    CHECK(packed[0] == 0xFF);
    CHECK_FALSE(encode_nf4(values, packed, {}, SIZE_MAX));
    CHECK_FALSE(encode_nf4(values, packed, absmax, 64));
    CHECK_FALSE(encode_nf4(values, packed, absmax, 0));
}

TEST_CASE(
    "encode_int4_row: the low half of a byte first; a group that is longer than its row, however long, is the row") {
    std::array<float, 3> const values{-16.0F, 14.0F, 2.0F};
    for (auto const group : {std::size_t{4}, SIZE_MAX - 1, SIZE_MAX}) {
        std::array<std::uint8_t, 2> encoded{};
        std::array<std::uint16_t, 1> scale{};
        REQUIRE(encode_int4_row(values, group, encoded, scale));
        CHECK(scale[0] == 0x4000);  // 2
        CHECK(encoded[0] == 0xF0);
        CHECK((encoded[1] & 15) == 9);
        CHECK_FALSE(encode_int4_row(values, group, encoded, {}));
    }
}
