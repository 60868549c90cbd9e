// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>

#include <doctest/doctest.h>

#include "quantised_source.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace shardwise;
using test::inputs_of;
using test::QuantisedWeight;
using test::Recipe;

namespace {

HostOptions options_at(IsaLevel level, int threads = 2) {
    return {.threads = threads, .is_pinned = false, .streams = StreamMode::immediate, .isa = level};
}

HostWeight hold(HostContext& context, WeightSource const& source) {
    auto held = Host::hold_weight(context, source);
    REQUIRE_MESSAGE(held, held.error().message());
    return std::move(*held);
}

/// The product of `rows` rows of `in`, which lie without gaps.
std::vector<float> multiply(HostContext& context, HostWeight const& weight, std::vector<float> const& in,
                            std::int64_t rows) {
    std::vector<float> out(static_cast<std::size_t>(rows * weight.outputs()));
    auto stream = context.make_stream();
    REQUIRE(
        Host::multiply({in.data(), {rows, weight.inputs()}}, weight, {out.data(), {rows, weight.outputs()}}, stream));
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
    return out;
}

std::vector<float> product(IsaLevel level, WeightSource const& source, std::vector<float> const& in,
                           std::int64_t rows) {
    HostContext context(options_at(level));
    auto const weight = hold(context, source);
    return multiply(context, weight, in, rows);
}

template <class Value>
std::vector<float> filled(std::int64_t count, Value&& value) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (auto& each : values) each = value();
    return values;
}

/// An element in double, and how far fp32 may be from it: the bound of product/quant_table.hpp.
struct Expected {
    double value = 0;
    double bound = 0;
};

std::vector<Expected> expected_of(Recipe const& recipe, QuantisedWeight const& weight, std::vector<float> const& in,
                                  std::int64_t rows, IsaLevel level) {
    constexpr double u = 0x1p-24;
    bool const is_fp32 = level == IsaLevel::portable || (recipe.format == WeightFormat::int4 && recipe.group % 32 != 0);
    auto const inputs = static_cast<double>(recipe.inputs);
    std::vector<Expected> all;
    for (std::int64_t row = 0; row < rows; ++row) {
        auto const* const x = in.data() + row * recipe.inputs;
        for (std::int64_t output = 0; output < recipe.outputs; ++output) {
            auto const w = weight.decoded(output);
            Expected one;
            double products = 0;
            double rounded = 0;
            double smallest = 0;
            for (std::int64_t first = 0; first < recipe.inputs; first += 32) {
                auto const last = std::min(first + 32, recipe.inputs);
                double largest = 0;
                double block = 0;
                for (auto k = first; k < last; ++k) {
                    auto const value = static_cast<double>(w[static_cast<std::size_t>(k)]);
                    auto const minimum = weight.minimum(output, k);
                    auto const factor = static_cast<double>(x[k]);
                    one.value += factor * value;
                    products += std::abs(factor) * (std::abs(value - minimum) + std::abs(minimum));
                    block += std::abs(value);
                    largest = std::max(largest, std::abs(factor));
                }
                // Unlike floats, whole numbers of a unit that is at least 2^-126 do not reach below 2^-127.
                rounded += 2.01 * u * largest * block;
                smallest += 0x1p-127 * block;
            }
            if (is_fp32) {
                one.bound = (inputs + 4) * u * products;
            } else if (recipe.format == WeightFormat::nf4 && level >= IsaLevel::avx512_bf16) {
                one.bound = (inputs / 64 + 20) * u * products;
            } else if (level >= IsaLevel::avx512_bf16) {
                one.bound = rounded + smallest + (inputs / 32 * 2 + 8) * u * products;
            } else {
                one.bound = smallest + (inputs / 32 * 2 + 26) * u * products;
            }
            // Where results are so small that floats have fewer bits.
            one.bound += (inputs + 4) * 0x1p-149;
            all.push_back(one);
        }
    }
    return all;
}

/// The largest distance from the double results, in bounds: right where it is at most 1.
double worst(std::vector<Expected> const& expected, std::vector<float> const& out) {
    double largest = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        auto const distance = std::abs(static_cast<double>(out[i]) - expected[i].value);
        largest = std::isnan(distance) ? 1e30 : std::max(largest, distance / expected[i].bound);
    }
    return largest;
}

void check_within_bound(Recipe const& recipe, QuantisedWeight const& weight, std::vector<float> const& in,
                        std::int64_t rows) {
    for (auto const level : test::isa_levels()) {
        auto const expected = expected_of(recipe, weight, in, rows, level);
        auto const distance = worst(expected, product(level, weight.source(), in, rows));
        CHECK_MESSAGE(distance <= 1.0, name_of(level), " ", name_of(recipe.format), " ", rows, " x ", recipe.outputs,
                      " x ", recipe.inputs, ": ", distance);
    }
}

}  // namespace

TEST_CASE(
    "multiply: quantised weights keep the derived bound at every level, for one row and for many, odd extents too") {
    struct Shape {
        std::int64_t rows;
        std::int64_t outputs;
        std::int64_t blocks;
    };
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (auto const format : test::quantised_formats) {
        for (auto const shape :
             {Shape{1, 1, 1}, {2, 15, 2}, {3, 17, 3}, {17, 5, 1}, {16, 16, 2}, {1, 33, 5}, {0, 3, 1}}) {
            Recipe const recipe{format, shape.outputs, inputs_of(format, shape.blocks)};
            QuantisedWeight const weight(recipe, random, [&] { return 0.01F * normal(random); });
            auto const in = filled(shape.rows * recipe.inputs, [&] { return normal(random); });
            check_within_bound(recipe, weight, in, shape.rows);
        }
    }
}

TEST_CASE("multiply: int8 and int4 take any number of inputs, int4 groups of any length") {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (auto const recipe : {Recipe{WeightFormat::int8, 17, 33},
                              {WeightFormat::int8, 3, 1},
                              {WeightFormat::int8, 3, 0},
                              {WeightFormat::int4, 17, 97, 32},
                              {WeightFormat::int4, 17, 97, 20},
                              {WeightFormat::int4, 5, 70, 1000},
                              {WeightFormat::int4, 5, 7, 1},
                              {WeightFormat::int4, 5, 320, 128}}) {
        QuantisedWeight const weight(recipe, random, [&] { return 0.01F * normal(random); });
        auto const in = filled(5 * recipe.inputs, [&] { return normal(random); });
        check_within_bound(recipe, weight, in, 5);
    }
}

TEST_CASE("multiply: quantised weights of extreme scales and activations keep the derived bound") {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    // The smallest and largest subnormal half, the smallest and largest normal one, zeros of both signs.
    std::vector<float> const scales{0x1p-24F, 0x1.ff8p-15F, 0x1p-14F, 65504.0F, 0.0F, -0.0F, -0x1p-24F, -65504.0F};
    std::size_t next = 0;
    // The largest products are floats still.
    auto const largest = [](WeightFormat format) { return traits(format).block_elements == 256 ? 1e28F : 1e30F; };
    for (auto const format : test::quantised_formats) {
        Recipe const recipe{format, 16, inputs_of(format, 2)};
        QuantisedWeight weight(recipe, random, [&] { return scales[next++ % scales.size()]; });
        // The first output has all nibbles, then the smallest and the largest codes; the second only zeros.
        if (traits(format).block_bytes == 0) {
            auto const row = weight.data().size() / 16;
            for (std::size_t i = 0; i < row; ++i)
                weight.data()[i] = static_cast<std::byte>(i < 16 ? i * 17 : i % 2 * 255);
            std::fill_n(weight.data().begin() + static_cast<std::ptrdiff_t>(row), row, std::byte{0});
        }
        for (float const size : {largest(format), 1e-30F, 1.0F}) {
            // Row 1 is zero, row 2 has one value that is far above the others.
            auto in = filled(3 * recipe.inputs, [&] { return size * normal(random); });
            std::fill_n(in.begin() + recipe.inputs, recipe.inputs, 0.0F);
            in[static_cast<std::size_t>(2 * recipe.inputs + 5)] = (size == 1.0F ? 1000.0F : 10.0F) * size;
            check_within_bound(recipe, weight, in, 3);
        }
    }
}

TEST_CASE("multiply: the largest codes times the largest digits of activations stay within all sums") {
    // Around what three digits can hold, 127 (65536 + 256 + 1) half units of 24 bits, and numbers of digits -128.
    std::vector<float> const largest{0x1.fffffep0F,
                                     std::ldexp(16711422.0F, -23),
                                     std::ldexp(16711423.0F, -23),
                                     std::ldexp(16711424.0F, -23),
                                     std::ldexp(127.0F * 65536 - 128 * 256 - 128, -22),
                                     std::ldexp(-127.0F * 65536 - 128 * 256 - 128, -22),
                                     std::ldexp(-4096.0F * 2040 - 2048, -22)};
    for (auto const format : test::quantised_formats) {
        Recipe const recipe{format, 2, inputs_of(format, 1)};
        for (auto const code : {std::byte{0x00}, std::byte{0x77}, std::byte{0x7F}, std::byte{0x80}, std::byte{0xFF}}) {
            QuantisedWeight const weight(
                recipe, [&] { return code; }, [] { return 1.0F; });
            std::vector<float> in;
            for (auto const value : largest) in.insert(in.end(), static_cast<std::size_t>(recipe.inputs), value);
            check_within_bound(recipe, weight, in, static_cast<std::int64_t>(largest.size()));
        }
    }
}

TEST_CASE("multiply: magnitudes below a quantised weight's smallest unit lose bits as documented, and no more") {
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    for (auto const format : {WeightFormat::q4_0, WeightFormat::q8_0, WeightFormat::nf4}) {
        Recipe const recipe{format, 3, inputs_of(format, 1)};
        QuantisedWeight const weight(recipe, random, [&] { return normal(random); });
        for (float const size : {0x1p-103F, 1e-35F, 1e-40F, 0x1p-149F}) {
            check_within_bound(recipe, weight, filled(recipe.inputs, [&] { return size * normal(random); }), 1);
        }
    }
}

TEST_CASE("multiply: whole numbers by quantised weights come out exactly at every level") {
    std::mt19937 random(5);
    auto const whole = [&] { return static_cast<float>(static_cast<int>(random() % 9) - 4); };
    for (auto const format : test::quantised_formats) {
        Recipe const recipe{format, 18, inputs_of(format, 2)};
        QuantisedWeight weight(recipe, random, [&] { return static_cast<float>(1 + random() % 2); });
        if (format == WeightFormat::nf4) {
            // Its only whole values: -1, 0 and 1.
            std::vector<std::byte> const pairs{std::byte{0x0F}, std::byte{0x77}, std::byte{0xF7}, std::byte{0x70}};
            for (auto& byte : weight.data()) byte = pairs[random() % 4];
        }
        auto const in = filled(5 * recipe.inputs, whole);
        for (auto const level : test::isa_levels()) {
            auto const out = product(level, weight.source(), in, 5);
            bool is_exact = true;
            for (std::int64_t output = 0; output < recipe.outputs; ++output) {
                auto const w = weight.decoded(output);
                for (std::int64_t row = 0; row < 5; ++row) {
                    double sum = 0;
                    for (std::size_t k = 0; k < w.size(); ++k) {
                        sum += static_cast<double>(w[k]) *
                               static_cast<double>(in[static_cast<std::size_t>(row) * w.size() + k]);
                    }
                    is_exact = is_exact &&
                               static_cast<double>(out[static_cast<std::size_t>(row * recipe.outputs + output)]) == sum;
                }
            }
            CHECK_MESSAGE(is_exact, name_of(level), " ", name_of(format));
        }
    }
}

TEST_CASE("multiply: the bits of a row by a quantised weight depend on no other row, output or thread") {
    std::mt19937 random(6);
    std::normal_distribution<float> normal;
    constexpr std::int64_t outputs = 37;
    // More than any level keeps sums of at a time.
    constexpr std::int64_t rows = 103;
    auto const is_same = [](float const* a, float const* b, std::int64_t count) {
        return std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(float)) == 0;
    };
    for (auto const format : test::quantised_formats) {
        Recipe const recipe{format, outputs, inputs_of(format, 1) + (format == WeightFormat::int8 ? 9 : 0)};
        QuantisedWeight const whole(recipe, random, [&] { return normal(random); });
        auto const in = filled(rows * recipe.inputs, [&] { return normal(random); });
        for (auto const level : test::isa_levels()) {
            HostContext context(options_at(level));
            HostContext lonely(options_at(level, 1));
            auto const weight = hold(context, whole.source());
            auto const all = multiply(context, weight, in, rows);
            // Each number of rows that a kernel has code of its own for, and some that are cut into several tiles.
            for (std::int64_t const count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 97}) {
                auto const first = std::min(count + 3, rows - count);
                std::vector<float> const some(in.begin() + first * recipe.inputs,
                                              in.begin() + (first + count) * recipe.inputs);
                auto const out = multiply(context, weight, some, count);
                CHECK_MESSAGE(is_same(out.data(), all.data() + first * outputs, count * outputs), name_of(level), " ",
                              name_of(format), " ", count);
            }
            auto const part = multiply(lonely, hold(lonely, whole.rows(5, 30)), in, 3);
            for (std::int64_t row = 0; row < 3; ++row) {
                CHECK_MESSAGE(is_same(part.data() + row * 25, all.data() + row * outputs + 5, 25), name_of(level), " ",
                              name_of(format));
            }
        }
    }
}

TEST_CASE("multiply: a value that is not finite makes its own row not a number, and no other") {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (auto const format :
         {WeightFormat::q4_0, WeightFormat::q4_1, WeightFormat::q8_0, WeightFormat::q6_k, WeightFormat::nf4}) {
        Recipe const recipe{format, 3, inputs_of(format, 2)};
        QuantisedWeight const weight(recipe, random, [&] { return normal(random); });
        for (auto const level : test::isa_levels()) {
            // These take NF4's activations as they are.
            bool const is_plain = format == WeightFormat::nf4 && level >= IsaLevel::avx512_bf16;
            if (level == IsaLevel::portable || is_plain) continue;
            for (float const odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
                auto in = filled(2 * recipe.inputs, [&] { return normal(random); });
                in[static_cast<std::size_t>(recipe.inputs + 7)] = odd;
                auto const out = product(level, weight.source(), in, 2);
                for (std::size_t output = 0; output < 3; ++output) {
                    CHECK(std::isfinite(out[output]));
                    CHECK(std::isnan(out[3 + output]));
                }
            }
        }
    }
}

TEST_CASE("multiply: an MXFP4 exponent of 255 is not a number, those of 0 and 250 are powers of two") {
    std::mt19937 random(8);
    for (auto const level : test::isa_levels()) {
        QuantisedWeight weight({WeightFormat::mxfp4, 3, 32}, random, [] { return 1.0F; });
        // 0.5 in each place.
        std::fill(weight.data().begin(), weight.data().end(), std::byte{0x11});
        weight.scales() = {std::byte{0}, std::byte{250}, std::byte{255}};
        auto const out = product(level, weight.source(), std::vector<float>(32, 0.25F), 1);
        CHECK(out[0] == 0x1p-127F * 4.0F);
        CHECK(out[1] == 0x1p123F * 4.0F);
        CHECK(std::isnan(out[2]));
    }
}
