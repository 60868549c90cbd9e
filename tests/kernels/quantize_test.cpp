// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/quantize.hpp>

#include <doctest/doctest.h>

#include "../quant/encoded_golden.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

using namespace shardwise;
using namespace shardwise_test;

namespace {

/// A quantised matrix of its own.
struct Quantized {
    WeightFormat format;
    std::int64_t rows;
    std::int64_t width;
    std::int64_t group;
    std::vector<std::byte> data;
    std::vector<std::byte> scales;

    Quantized(WeightFormat kind, std::int64_t row_count, std::int64_t columns, std::int64_t group_size = 0)
        : format(kind), rows(row_count), width(columns), group(group_size) {
        auto const bytes = detail::source_bytes(source());
        data.resize(bytes ? static_cast<std::size_t>(bytes->data) : 0);
        scales.resize(bytes ? static_cast<std::size_t>(bytes->scales) : 0);
    }
    WeightSource source() const { return {format, rows, width, data, scales, group}; }
    Result<> fill(TensorView<float const, 2, Host> in, HostStream& stream) {
        return quantize(in, format, data, scales, stream, group);
    }
};

std::vector<std::uint8_t> bytes_of(std::vector<std::byte> const& bytes) {
    std::vector<std::uint8_t> out(bytes.size());
    std::transform(bytes.begin(), bytes.end(), out.begin(),
                   [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
    return out;
}

struct FormatCase {
    WeightFormat format;
    /// The error of a value is at most this part of the greatest magnitude near it, a rounded scale included.
    double error;
};
// Half of a step over the range that the format spreads its steps on, and the rounding of a scale to a half (2^-11) times the
// farthest value. nf4: half of its widest gap; mxfp4: between 4 and 6 of a block that may reach 8 - 1 ulp, which saturates.
constexpr FormatCase formats[] = {
    {WeightFormat::f32, 0.0},         {WeightFormat::bf16, 0x1p-8},    {WeightFormat::f16, 0x1p-11},
    {WeightFormat::int8, 0.51 / 127}, {WeightFormat::int4, 1.001 / 8}, {WeightFormat::nf4, 0.153},
    {WeightFormat::mxfp4, 0.2501},    {WeightFormat::q4_0, 1.01 / 8},  {WeightFormat::q4_1, 1.02 / 15},
    {WeightFormat::q5_0, 1.01 / 16},  {WeightFormat::q5_1, 1.04 / 31}, {WeightFormat::q8_0, 0.6 / 127},
};

}  // namespace

TEST_CASE("quantize: GGUF rows, int8 and NF4 have the bits of gguf and bitsandbytes, on any number of threads") {
    auto const golden = EncodedGolden::read();
    auto const many = static_cast<std::int64_t>(golden.sweep.size());
    for (int const threads : {1, 3}) {
        HostContext context({.threads = threads});
        auto stream = context.make_stream();
        for (auto const& line : golden.lines) {
            auto const type = parse_ggml_type(line[0]);
            auto const format = type ? weight_format(*type) : Optional<WeightFormat>{};
            if (!format) continue;
            CAPTURE(line[0]);
            Quantized weight(*format, many / 512, 512);
            REQUIRE(weight.fill({golden.sweep.data(), {many / 512, 512}}, stream));
            CHECK(fnv1a(weight.data) == line[2]);
        }
        Quantized nf4(WeightFormat::nf4, many / 128, 128);
        REQUIRE(nf4.fill({golden.sweep.data(), {many / 128, 128}}, stream));
        CHECK(fnv1a(nf4.data) == golden.line("nf4")[3]);
        CHECK(fnv1a(nf4.scales) == golden.line("nf4")[4]);
        Quantized int8(WeightFormat::int8, many / 256, 256);
        REQUIRE(int8.fill({golden.sweep.data(), {many / 256, 256}}, stream));
        CHECK(fnv1a(int8.data) == golden.line("int8")[3]);
    }
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const edges = static_cast<std::int64_t>(golden.edges.size());
    Quantized nf4(WeightFormat::nf4, 1, edges);
    REQUIRE(nf4.fill({golden.edges.data(), {1, edges}}, stream));
    CHECK(bytes_of(nf4.data) == from_hex<std::uint8_t>(golden.line("nf4")[1]));
    Quantized int8(WeightFormat::int8, edges / 64 - 1, 64);
    REQUIRE(int8.fill({golden.edges.data() + 64, {edges / 64 - 1, 64}}, stream));
    CHECK(bytes_of(int8.data) == from_hex<std::uint8_t>(golden.line("int8")[1]));
}

TEST_CASE("quantize and dequantize: give each value back as near as the format's steps allow, from strided rows") {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    constexpr std::int64_t rows = 5;
    constexpr std::int64_t width = 320;
    std::vector<float> values(rows * (width + 3));
    for (auto& value : values) value = normal(random);
    TensorView<float const, 2, Host> const in{values.data(), {rows, width}, width + 3};
    for (auto const& one : formats) {
        auto const format = one.format;
        CAPTURE(name_of(format));
        Quantized weight(format, rows, width, 40);
        REQUIRE(weight.fill(in, stream));
        std::vector<float> out(rows * (width + 1), 99.0F);
        REQUIRE(dequantize(weight.source(), {out.data(), {rows, width}, width + 1}, stream));
        int wrong = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
            double magnitude = 0.0;
            double range[2]{};
            for (std::int64_t i = 0; i < width; ++i) {
                magnitude = std::max(magnitude, static_cast<double>(std::abs(in.row(row)[i])));
                range[0] = std::min(range[0], static_cast<double>(in.row(row)[i]));
                range[1] = std::max(range[1], static_cast<double>(in.row(row)[i]));
            }
            bool const is_ranged = format == WeightFormat::q4_1 || format == WeightFormat::q5_1;
            auto const allowed = one.error * (is_ranged ? (range[1] - range[0]) / 2.0 : magnitude);
            for (std::int64_t i = 0; i < width; ++i) {
                if (!(std::abs(static_cast<double>(out[static_cast<std::size_t>(row * (width + 1) + i)]) -
                               static_cast<double>(in.row(row)[i])) <= allowed)) {
                    ++wrong;
                }
            }
            CHECK(out[static_cast<std::size_t>(row * (width + 1) + width)] == 99.0F);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("quantize: no rows, odd widths, one element, and values that are no numbers") {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    float const one = -3.0F;
    for (auto const format :
         {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8, WeightFormat::int4}) {
        Quantized weight(format, 1, 1, 7);
        REQUIRE(weight.fill({&one, {1, 1}}, stream));
        float out = 0.0F;
        REQUIRE(dequantize(weight.source(), {&out, {1, 1}}, stream));
        CHECK(out == doctest::Approx(-3.0F).epsilon(1e-6));
        Quantized none(format, 0, 9, 7);
        CHECK(none.fill({&one, {0, 9}}, stream));
        CHECK(dequantize(none.source(), {&out, {0, 9}}, stream));
    }
    std::vector<float> odd(7, 1.0F);
    odd[6] = std::numeric_limits<float>::quiet_NaN();
    Quantized int4(WeightFormat::int4, 1, 7, 3);
    REQUIRE(int4.fill({odd.data(), {1, 7}}, stream));
    std::vector<float> out(7);
    REQUIRE(dequantize(int4.source(), {out.data(), {1, 7}}, stream));
    CHECK(std::isnan(out[6]));
    CHECK(out[0] == 1.0F);
    Quantized int8(WeightFormat::int8, 1, 7);
    REQUIRE(int8.fill({odd.data(), {1, 7}}, stream));
    REQUIRE(dequantize(int8.source(), {out.data(), {1, 7}}, stream));
    CHECK(std::isnan(out[6]));
}

TEST_CASE("quantize: refuses formats and sizes that do not go together, with the numbers") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    std::vector<float> const values(256);
    std::vector<std::byte> data(144);
    auto const refused = quantize({values.data(), {1, 256}}, WeightFormat::q4_k, data, {}, stream);
    CHECK(refused.error().code() == ErrorCode::unsupported);
    CHECK(refused.error().message().find("q4_k") != std::string::npos);
    CHECK(quantize({values.data(), {1, 256}}, WeightFormat::q8_0, data, {}, stream).error().code() ==
          ErrorCode::shape_mismatch);
    CHECK(quantize({values.data(), {1, 33}}, WeightFormat::q4_0, data, {}, stream).error().code() ==
          ErrorCode::shape_mismatch);
    CHECK(quantize({values.data(), {1, 256}}, WeightFormat::int4, data, data, stream).error().code() ==
          ErrorCode::invalid_argument);
    float out = 0.0F;
    CHECK(dequantize({WeightFormat::q4_0, 1, 256, data, {}}, {&out, {1, 1}}, stream)
              .error()
              .message()
              .find("another shape") != std::string::npos);
    std::vector<float> many(256);
    CHECK(dequantize({WeightFormat::q4_0, 1, 256, data, {}}, {many.data(), {256, 1}}, stream).error().message() ==
          "dequantize: the output has another shape than the weight: its rows (got 256, expected 1)");
}
