// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/decode_legacy.hpp>

#include "backends.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

using namespace shardwise;
using shardwise::testing::Bench;
using shardwise::testing::numbers;
using shardwise::testing::open_bench;
using shardwise::testing::roundoff;

namespace {

/// Half of the distance between the smallest numbers of a type: what a result near zero may be off.
template <class T>
constexpr double smallest = std::is_same_v<T, Float16> ? 0x1p-25 : 0x1p-134;

template <class T, class B>
void check_rms_norm(Bench<B>& bench, std::int64_t rows, std::int64_t width, std::int64_t stride, bool in_place,
                    float epsilon = 1e-5F, float size = 1.0F, std::int64_t shift = 0) {
    // Rows begin `shift` elements after the memory.
    auto in = numbers<T>(rows * stride + shift, 11);
    for (auto& value : in) value = T(static_cast<float>(value) * size);
    auto const weight = numbers<T>(width + shift, 12);
    constexpr float offset = 1.0F;
    auto device_in = bench.send(in);
    auto device_weight = bench.send(weight);
    auto device_out = bench.send(std::vector<T>(static_cast<std::size_t>(rows * stride + shift)));
    auto& target = in_place ? device_in : device_out;
    TensorView<T const, 2, B> const from(device_in.data() + shift, {rows, width}, stride);
    TensorView<T, 2, B> const to(target.data() + shift, {rows, width}, stride);
    TensorView<T const, 1, B> const parameters(device_weight.data() + shift, {width});
    REQUIRE(rms_norm<T>(from, parameters, to, epsilon, bench.stream(), offset));
    auto const out = bench.fetch(target);
    // A sum in 256 parts, of up to 8 elements at a time, joined by at most 32 + 5 additions; or of a narrow row in 16 parts and
    // more. Its square root halves the error, and a division, an addition, the root, the reciprocal and three products follow.
    auto const parts = width <= 1024 ? 16 : 256;
    auto const roundings = (static_cast<double>(width / parts) + 8 + 1 + 37) / 2 + 7;
    for (std::int64_t row = 0; row < rows; ++row) {
        auto const* const values = in.data() + shift + row * stride;
        double squares = 0.0;
        for (std::int64_t i = 0; i < width; ++i)
            squares += std::pow(static_cast<double>(static_cast<float>(values[i])), 2);
        auto const scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(epsilon));
        for (std::int64_t i = 0; i < width; ++i) {
            auto const w = static_cast<double>(static_cast<float>(weight[static_cast<std::size_t>(shift + i)]));
            auto const expected = static_cast<double>(static_cast<float>(values[i])) * scale * (w + 1.0);
            auto const result =
                static_cast<double>(static_cast<float>(out[static_cast<std::size_t>(shift + row * stride + i)]));
            REQUIRE(std::abs(result - expected) <=
                    std::abs(expected) * (roundings * 0x1p-24 + roundoff<T>)*1.01 + smallest<T>);
        }
    }
}

/// By angles that the kernel computes, or by those that rope_turns made.
template <class T, class B>
void check_rope_by(Bench<B>& bench, RopeLayout layout, std::int64_t heads, std::int64_t head_dim, std::int64_t pairs,
                   std::int64_t first, bool has_turns) {
    CAPTURE(has_turns);
    std::vector<std::int32_t> const positions{0, 1, 17, 1000003, -5};
    auto const tokens = static_cast<std::int64_t>(positions.size());
    std::vector<float> frequencies;
    for (std::int64_t i = 0; i < pairs; ++i) {
        frequencies.push_back(std::pow(10000.0F, -static_cast<float>(i) / static_cast<float>(pairs)));
    }
    auto const width = heads * head_dim;
    auto const values = numbers<T>(tokens * width, 21);
    constexpr float scale = 1.25F;
    auto device_values = bench.send(values);
    auto const device_positions = bench.send(positions);
    auto const device_frequencies = bench.send(frequencies);
    // Rows of turns that lie on packs and, of three heads, on none.
    auto const turns_row = 2 * pairs + (heads == 3 ? 1 : 4);
    auto made = bench.send(std::vector<float>(static_cast<std::size_t>(tokens * turns_row), 77.0F));
    TensorView<float, 2, B> const turns(made.data(), {tokens, 2 * pairs}, turns_row);
    if (has_turns) {
        REQUIRE(rope_turns(device_positions.view(), device_frequencies.view(), turns, bench.stream(), scale));
        REQUIRE(rope<T>(device_values.matrix(tokens, width), TensorView<float const, 2, B>(turns), head_dim, layout,
                        bench.stream(), first));
    } else {
        REQUIRE(rope<T>(device_values.matrix(tokens, width), device_positions.view(), device_frequencies.view(),
                        head_dim, layout, bench.stream(), scale, first));
    }
    auto const out = bench.fetch(device_values);
    for (std::int64_t token = 0; token < tokens; ++token) {
        for (std::int64_t i = 0; i < width; ++i) {
            auto const at = [&](std::int64_t element) {
                return static_cast<double>(
                    static_cast<float>(values[static_cast<std::size_t>(token * width + element)]));
            };
            auto const head = i / head_dim * head_dim + first;
            auto const within = i % head_dim - first;
            auto const result =
                static_cast<double>(static_cast<float>(out[static_cast<std::size_t>(token * width + i)]));
            if (within < 0 || within >= 2 * pairs) {
                REQUIRE(result == at(i));
                continue;
            }
            bool const is_half = layout == RopeLayout::half;
            auto const pair = is_half ? within % pairs : within / 2;
            bool const is_first = is_half ? within < pairs : within % 2 == 0;
            auto const a = at(head + (is_half ? pair : 2 * pair));
            auto const b = at(head + (is_half ? pair + pairs : 2 * pair + 1));
            auto const angle = static_cast<double>(positions[static_cast<std::size_t>(token)]) *
                               static_cast<double>(frequencies[static_cast<std::size_t>(pair)]);
            auto const cosine = std::cos(angle) * 1.25;
            auto const sine = std::sin(angle) * 1.25;
            auto const expected = is_first ? a * cosine - b * sine : b * cosine + a * sine;
            // A sine is within 3 * 2^-24 (kernels/detail/turns.hpp), scaled and multiplied, then the two products are added.
            auto const bound =
                (std::abs(a) + std::abs(b)) * 1.25 * 6 * 0x1p-24 + std::abs(expected) * roundoff<T> + smallest<T>;
            REQUIRE(std::abs(result - expected) <= bound * 1.01);
        }
    }
}

template <class T, class B>
void check_rope(Bench<B>& bench, RopeLayout layout, std::int64_t heads, std::int64_t head_dim, std::int64_t pairs,
                std::int64_t first = 0) {
    for (bool const has_turns : {false, true})
        check_rope_by<T>(bench, layout, heads, head_dim, pairs, first, has_turns);
}

/// A weight with its bytes and, for the reference, its values.
struct Weight {
    WeightFormat format;
    std::int64_t outputs;
    std::int64_t inputs;
    std::vector<std::byte> data;
    std::vector<std::byte> scales;
    std::vector<float> values;

    [[nodiscard]] WeightSource source() const { return {format, outputs, inputs, data, scales}; }
};

template <class T>
void append(std::vector<std::byte>& bytes, T const& value) {
    auto const at = bytes.size();
    bytes.resize(at + sizeof(T));
    std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <class T>
Weight dense(WeightFormat format, std::int64_t outputs, std::int64_t inputs) {
    Weight weight{format, outputs, inputs, {}, {}, {}};
    for (auto const& value : numbers<T>(outputs * inputs, 31)) {
        append(weight.data, value);
        weight.values.push_back(static_cast<float>(value));
    }
    return weight;
}

template <std::size_t block_bytes, class Decode>
Weight blocks(WeightFormat format, std::int64_t outputs, std::int64_t inputs, Decode const& decode) {
    Weight weight{format, outputs, inputs, {}, {}, {}};
    std::mt19937 generator(41);
    for (std::int64_t block = 0; block < outputs * inputs / 32; ++block) {
        std::array<std::uint8_t, block_bytes> bytes{};
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(generator());
        auto const scale = Float16(0.001F * static_cast<float>(1 + block % 50) * (block % 3 == 0 ? -1.0F : 1.0F));
        std::memcpy(bytes.data(), &scale.bits, 2);
        append(weight.data, bytes);
        std::array<float, 32> decoded{};
        decode(std::span<std::uint8_t const, block_bytes>(bytes), std::span<float, 32>(decoded));
        weight.values.insert(weight.values.end(), decoded.begin(), decoded.end());
    }
    return weight;
}

Weight make_weight(WeightFormat format, std::int64_t outputs, std::int64_t inputs) {
    switch (format) {
        case WeightFormat::f32:
            return dense<float>(format, outputs, inputs);
        case WeightFormat::bf16:
            return dense<Bfloat16>(format, outputs, inputs);
        case WeightFormat::f16:
            return dense<Float16>(format, outputs, inputs);
        case WeightFormat::q4_0:
            return blocks<18>(format, outputs, inputs, [](auto block, auto out) { decode_q4_0(block, out); });
        case WeightFormat::q8_0:
            return blocks<34>(format, outputs, inputs, [](auto block, auto out) { decode_q8_0(block, out); });
        default:
            break;
    }
    Weight weight{WeightFormat::int8, outputs, inputs, {}, {}, {}};
    std::mt19937 generator(51);
    for (std::int64_t output = 0; output < outputs; ++output) {
        auto const scale = 0.01F + 0.001F * static_cast<float>(output);
        append(weight.scales, scale);
        for (std::int64_t i = 0; i < inputs; ++i) {
            auto const quant = static_cast<std::int8_t>(static_cast<std::int32_t>(generator() % 256) - 128);
            append(weight.data, quant);
            weight.values.push_back(scale * static_cast<float>(quant));
        }
    }
    return weight;
}

template <class B>
void check_multiply(Bench<B>& bench, WeightFormat format, std::int64_t outputs, std::int64_t inputs,
                    std::int64_t rows) {
    CAPTURE(static_cast<int>(format));
    CAPTURE(outputs);
    CAPTURE(inputs);
    CAPTURE(rows);
    auto const weight = make_weight(format, outputs, inputs);
    auto const held = B::hold_weight(bench.context(), weight.source());
    REQUIRE(held);
    CHECK(held->outputs() == outputs);
    CHECK(held->inputs() == inputs);
    // Rows that lie apart, on a multiple of 16 bytes or not, and an output beside which nothing is written.
    auto const in_row = inputs + (rows % 2 == 0 ? 4 : 3);
    auto in = numbers(rows * in_row, 61);
    for (std::int64_t i = 0; i < rows * in_row; ++i) {
        if (i % in_row >= inputs) in[static_cast<std::size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
    }
    auto const device_in = bench.send(in);
    auto device_out = bench.send(std::vector<float>(static_cast<std::size_t>(rows * (outputs + 2)), 77.0F));
    TensorView<float const, 2, B> const from(device_in.data(), {rows, inputs}, in_row);
    TensorView<float, 2, B> const to(device_out.data(), {rows, outputs}, outputs + 2);
    REQUIRE(B::multiply(from, *held, to, bench.stream()));
    auto const out = bench.fetch(device_out);
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t output = 0; output < outputs + 2; ++output) {
            auto const result = static_cast<double>(out[static_cast<std::size_t>(row * (outputs + 2) + output)]);
            if (output >= outputs) {
                REQUIRE(result == 77.0);
                continue;
            }
            double sum = 0.0;
            double magnitude = 0.0;
            for (std::int64_t i = 0; i < inputs; ++i) {
                auto const product = static_cast<double>(weight.values[static_cast<std::size_t>(output * inputs + i)]) *
                                     static_cast<double>(in[static_cast<std::size_t>(row * in_row + i)]);
                sum += product;
                magnitude += std::abs(product);
            }
            // As many products and additions as inputs, in any order; the scale's product, and its rounding in the reference.
            REQUIRE(std::abs(result - sum) <= static_cast<double>(inputs + 3) * 0x1p-24 * magnitude);
        }
    }
}

/// The columns of a range, as a weight of their own.
Weight columns_of(Weight const& whole, UnitRange inputs) {
    Weight part{whole.format, whole.outputs, inputs.size(), {}, whole.scales, {}};
    auto const row = static_cast<std::int64_t>(whole.data.size()) / whole.outputs;
    for (std::int64_t output = 0; output < whole.outputs; ++output) {
        auto const at = whole.data.begin() + output * row;
        part.data.insert(part.data.end(), at + row * inputs.begin / whole.inputs, at + row * inputs.end / whole.inputs);
    }
    return part;
}

/// A range of a weight's inputs has the bits of a weight that holds them alone.
template <class B>
void check_multiply_range(Bench<B>& bench, WeightFormat format, std::int64_t inputs, UnitRange range,
                          std::int64_t rows) {
    CAPTURE(static_cast<int>(format));
    CAPTURE(range.begin);
    CAPTURE(rows);
    constexpr std::int64_t outputs = 11;
    auto const weight = make_weight(format, outputs, inputs);
    auto const part = columns_of(weight, range);
    auto const in = bench.send(numbers(rows * inputs, 62));
    TensorView<float const, 2, B> const from(in.data() + range.begin, {rows, range.size()}, inputs);
    auto const product = [&](Weight const& source, UnitRange taken) {
        auto const held = B::hold_weight(bench.context(), source.source());
        REQUIRE(held);
        auto out = bench.send(std::vector<float>(static_cast<std::size_t>(rows * outputs)));
        REQUIRE(B::multiply(from, *held, taken, out.matrix(rows, outputs), bench.stream()));
        return bench.fetch(out);
    };
    CHECK(product(weight, range) == product(part, {0, range.size()}));
}

constexpr std::array<WeightFormat, 6> device_formats{WeightFormat::f32,  WeightFormat::bf16, WeightFormat::f16,
                                                     WeightFormat::int8, WeightFormat::q4_0, WeightFormat::q8_0};

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("rms_norm is within the rounding of its arithmetic, in place and with rows that lie apart", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    check_rms_norm<float>(*bench, 3, 1000, 1003, false);
    check_rms_norm<float>(*bench, 20, 64, 64, true);
    check_rms_norm<float>(*bench, 1, 1, 1, false);
    check_rms_norm<Bfloat16>(*bench, 2, 257, 300, true);
    check_rms_norm<Float16>(*bench, 2, 256, 256, false);
    // Of whole packs: rows of a warp, of a block, more than a thread keeps; as wide, but off the packs' addresses.
    check_rms_norm<float>(*bench, 33, 1024, 1024, true);
    check_rms_norm<float>(*bench, 2, 1028, 1032, false);
    check_rms_norm<float>(*bench, 1, 8704, 8704, true);
    check_rms_norm<Bfloat16>(*bench, 3, 128, 136, false);
    check_rms_norm<Bfloat16>(*bench, 2, 1040, 1040, true);
    check_rms_norm<Float16>(*bench, 1, 16640, 16640, false);
    check_rms_norm<Float16>(*bench, 3, 64, 68, false);
    check_rms_norm<float>(*bench, 3, 64, 64, true, 1e-5F, 1.0F, 1);
    check_rms_norm<Bfloat16>(*bench, 3, 64, 64, false, 1e-5F, 1.0F, 3);
    check_rms_norm<float>(*bench, 0, 64, 64, false);
    // Rows whose squares no float holds, and epsilons as small: 0x1p-149 is the smallest float.
    for (float const epsilon : {0.0F, 0x1p-149F, 0x1p-101F, 0x1p-99F, 1e-12F}) {
        for (float const size :
             {0x1p-147F, 1e-42F, 1e-39F, 1e-30F, 1e-22F, 1e-19F, 1e-16F, 1e-14F, 1e17F, 1e18F, 1e19F, 1e30F, 1e37F}) {
            CAPTURE(epsilon);
            CAPTURE(size);
            check_rms_norm<float>(*bench, 2, 300, 301, false, epsilon, size);
            // The smallest of this type is 9e-41.
            if (size >= 1e-39F) check_rms_norm<Bfloat16>(*bench, 2, 65, 65, true, epsilon, size);
        }
    }
}

TEST_CASE_TEMPLATE("rms_norm refuses shapes that do not fit", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto buffer = bench->send(numbers(12, 1));
    TensorView<float const, 2, B> const in = buffer.matrix(3, 4);
    TensorView<float const, 1, B> const weight(buffer.data(), {4});
    TensorView<float const, 1, B> const narrow(buffer.data(), {3});
    for (auto const& result : {rms_norm<float>(in, weight, buffer.matrix(2, 4), 1e-5F, bench->stream()),
                               rms_norm<float>(in, weight, buffer.matrix(3, 3), 1e-5F, bench->stream()),
                               rms_norm<float>(in, narrow, buffer.matrix(3, 4), 1e-5F, bench->stream())}) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code() == ErrorCode::shape_mismatch);
        CHECK(result.error().subject() == "rms_norm");
    }
}

TEST_CASE_TEMPLATE("rms_norm keeps what is no number in its row, and gives 0 and NaN where a square root is infinite",
                   B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    for (std::int64_t const width : {5, 64, 1028}) {
        auto values = std::vector<float>(static_cast<std::size_t>(4 * width), 1.0F);
        values[static_cast<std::size_t>(width)] = std::nanf("");
        values[static_cast<std::size_t>(2 * width + 1)] = -infinity;
        for (std::int64_t i = 0; i < width; ++i)
            values[static_cast<std::size_t>(3 * width + i)] = i == 0 ? -0.0F : 0.0F;
        auto const in = bench->send(values);
        auto const weight = bench->send(std::vector<float>(static_cast<std::size_t>(width), 1.0F));
        auto out = bench->send(values);
        TensorView<float const, 2, B> const rows(in.data(), {4, width});
        TensorView<float const, 1, B> const parameters(weight.data(), {width});
        REQUIRE(rms_norm<float>(rows, parameters, out.matrix(4, width), 0.0F, bench->stream()));
        auto const made = bench->fetch(out);
        auto const at = [&](std::int64_t row, std::int64_t i) {
            return made[static_cast<std::size_t>(row * width + i)];
        };
        CHECK(std::abs(at(0, 0) - 1.0F) <= 0x1p-20F);
        for (std::int64_t i = 0; i < width; ++i) {
            REQUIRE(std::isnan(at(1, i)));
            REQUIRE((i == 1 ? std::isnan(at(2, i)) : at(2, i) == 0.0F));
            // 0 / 0: no epsilon.
            REQUIRE(std::isnan(at(3, i)));
        }
    }
}

TEST_CASE_TEMPLATE("rope turns pairs of both layouts by angles of any size, and leaves the rest of a head", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const layout : {RopeLayout::half, RopeLayout::interleaved}) {
        check_rope<float>(*bench, layout, 3, 16, 8);
        check_rope<float>(*bench, layout, 2, 10, 3);
        check_rope<Bfloat16>(*bench, layout, 2, 8, 4);
        check_rope<Float16>(*bench, layout, 2, 8, 4);
        // Of whole packs; beside others; more pairs than a block has threads.
        check_rope<Float16>(*bench, layout, 3, 32, 16);
        check_rope<Bfloat16>(*bench, layout, 5, 40, 16, 8);
        check_rope<float>(*bench, layout, 2, 24, 8, 5);
        check_rope<float>(*bench, layout, 1, 270, 135);
    }
}

TEST_CASE_TEMPLATE("multiply is within the rounding of its sums for every format that a device holds", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const format : device_formats) {
        check_multiply(*bench, format, 37, 96, 1);
        check_multiply(*bench, format, 5, 32, 4);
        check_multiply(*bench, format, 18, 1024, 6);
        check_multiply(*bench, format, 3, 64, 17);
    }
    // Rows that end within a device's 16 bytes.
    for (auto const format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8}) {
        check_multiply(*bench, format, 9, 37, 2);
        check_multiply(*bench, format, 1, 1, 1);
    }
}

TEST_CASE_TEMPLATE("multiply takes a range of inputs that begins anywhere with the bits of a weight of its own", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const format : device_formats) {
        check_multiply_range(*bench, format, 160, {32, 128}, 1);
        check_multiply_range(*bench, format, 160, {96, 160}, 5);
    }
    // On words, within them, up to the end of the weight's memory, and so many rows that a vendor's product would be taken.
    for (auto const format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8}) {
        // The host multiplies int8 in blocks of 32.
        if (std::is_same_v<B, Host> && format == WeightFormat::int8) continue;
        for (auto const range : {UnitRange{4, 61}, UnitRange{5, 44}, UnitRange{31, 61}, UnitRange{60, 61}}) {
            check_multiply_range(*bench, format, 61, range, 2);
            check_multiply_range(*bench, format, 61, range, 18);
        }
    }
    auto const weight = make_weight(WeightFormat::q8_0, 4, 64);
    auto const held = B::hold_weight(bench->context(), weight.source());
    REQUIRE(held);
    auto const in = bench->send(numbers(64, 1));
    auto out = bench->send(std::vector<float>(4));
    TensorView<float const, 2, B> const from(in.data(), {1, 48});
    for (auto const range : {UnitRange{16, 64}, UnitRange{0, 48}, UnitRange{32, 80}}) {
        auto const refused = B::multiply(from, *held, range, out.matrix(1, 4), bench->stream());
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == ErrorCode::shape_mismatch);
    }
}

TEST_SUITE_END();

TEST_CASE_TEMPLATE("hold_weight counts the device's bytes and refuses sizes that do not fit", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    {
        auto const weight = make_weight(WeightFormat::q8_0, 4, 64);
        auto const held = B::hold_weight(bench->context(), weight.source());
        REQUIRE(held);
        CHECK(held->bytes() >= Bytes{4 * 2 * 34});
        CHECK(bench->context().memory().current() == held->bytes());
    }
    CHECK(bench->context().memory().current() == Bytes{0});
    auto short_data = make_weight(WeightFormat::q4_0, 4, 64);
    short_data.data.pop_back();
    CHECK(B::hold_weight(bench->context(), short_data.source()).error().code() == ErrorCode::shape_mismatch);
    auto no_scales = make_weight(WeightFormat::int8, 4, 64);
    no_scales.scales.clear();
    CHECK(B::hold_weight(bench->context(), no_scales.source()).error().code() == ErrorCode::shape_mismatch);
    auto half_block = make_weight(WeightFormat::q8_0, 4, 64);
    half_block.inputs = 48;
    CHECK(B::hold_weight(bench->context(), half_block.source()).error().code() == ErrorCode::shape_mismatch);
}

TEST_CASE("A device refuses a format without a kernel and says which") {
    using Device = shardwise::testing::TestDevice;
    auto const bench = open_bench<Device>();
    if (!bench) return;
    std::vector<std::byte> const data(4 * 144);
    auto const held = Device::hold_weight(bench->context(), {WeightFormat::q4_k, 4, 256, data, {}});
    REQUIRE_FALSE(held);
    CHECK(held.error().code() == ErrorCode::unsupported);
    CHECK(held.error().place() == "q4_k");
}
