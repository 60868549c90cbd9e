// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <doctest/doctest.h>

#include "quantised_source.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using namespace shardwise;
using test::inputs_of;
using test::QuantisedWeight;
using test::Recipe;

namespace {

using Floats = std::vector<float>;

HostOptions options_at(IsaLevel level, ProductActivations activations, int threads = 2) {
    return {.threads = threads, .isa = level, .product_activations = activations};
}

HostWeight hold(HostContext& context, WeightSource const& source) {
    auto held = Host::hold_weight(context, source);
    REQUIRE_MESSAGE(held, held.error().message());
    return std::move(*held);
}

/// The product of `rows` rows by a range of a weight's inputs.
Floats multiply(HostContext& context, HostWeight const& weight, UnitRange inputs, Floats const& in, std::int64_t rows) {
    Floats out(static_cast<std::size_t>(rows * weight.outputs()));
    auto stream = context.make_stream();
    REQUIRE(Host::multiply({in.data(), {rows, inputs.size()}}, weight, inputs, {out.data(), {rows, weight.outputs()}},
                           stream));
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
    return out;
}

Floats product(IsaLevel level, WeightSource const& source, Floats const& in, std::int64_t rows,
               ProductActivations activations = ProductActivations::int8) {
    HostContext context(options_at(level, activations));
    return multiply(context, hold(context, source), {0, source.inputs}, in, rows);
}

template <class Value>
Floats filled(std::int64_t count, Value&& value) {
    Floats values(static_cast<std::size_t>(count));
    for (auto& each : values) each = value();
    return values;
}

bool is_same(Floats const& a, Floats const& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Formats whose products round, with a weight of each whose scales lie otherwise, too.
std::vector<Recipe> recipes(std::int64_t outputs, std::int64_t blocks) {
    std::vector<Recipe> all;
    for (auto const format : test::quantised_formats) {
        if (has_int8_product(format)) all.push_back({format, outputs, inputs_of(format, blocks)});
    }
    all.push_back({WeightFormat::int8, outputs, 32 * blocks + 9});
    all.push_back({WeightFormat::int4, outputs, 32 * blocks + 6, 32});
    all.push_back({WeightFormat::int4, outputs, 32 * blocks + 6, 20});
    all.push_back({WeightFormat::int4, outputs, 32 * blocks, 1000});
    return all;
}

/// Activations as the policy rounds them, in double arithmetic.
struct RoundedRow {
    std::vector<double> values;
    std::vector<double> largest;
};
RoundedRow rounded(float const* row, std::int64_t inputs) {
    RoundedRow made;
    for (std::int64_t first = 0; first < inputs; first += 32) {
        auto const last = std::min(first + 32, inputs);
        double largest = 0x1p-100;
        for (auto i = first; i < last; ++i) largest = std::max(largest, std::abs(static_cast<double>(row[i])));
        for (auto i = first; i < last; ++i) {
            made.values.push_back(std::nearbyint(static_cast<double>(row[i]) * 127.0 / largest) * largest / 127.0);
            made.largest.push_back(largest);
        }
    }
    return made;
}

/// The bounds of product/rounded_table.hpp: against what is rounded to, and against the activations themselves. A value between two
/// whole numbers may be rounded to either.
void check_bounds(Recipe const& recipe, QuantisedWeight const& weight, Floats const& in, std::int64_t rows,
                  Floats const& out) {
    constexpr double u = 0x1p-24;
    auto const inputs = static_cast<double>(recipe.inputs);
    double worst = 0.0;
    for (std::int64_t row = 0; row < rows; ++row) {
        auto const* const x = in.data() + row * recipe.inputs;
        auto const near = rounded(x, recipe.inputs);
        for (std::int64_t output = 0; output < recipe.outputs; ++output) {
            auto const w = weight.decoded(output);
            double exact = 0.0, stepped = 0.0, ties = 0.0, products = 0.0, rounding = 0.0;
            for (std::size_t k = 0; k < w.size(); ++k) {
                auto const value = static_cast<double>(w[k]);
                auto const minimum = weight.minimum(output, static_cast<std::int64_t>(k));
                exact += static_cast<double>(x[k]) * value;
                stepped += near.values[k] * value;
                products += near.largest[k] * (std::abs(value - minimum) + std::abs(minimum));
                rounding += 1.0001 * near.largest[k] / 254.0 * std::abs(value);
                auto const place = std::abs(static_cast<double>(x[k])) * 127.0 / near.largest[k];
                bool const is_tie = std::abs(place - std::floor(place) - 0.5) < 1e-4;
                if (is_tie) ties += near.largest[k] / 127.0 * std::abs(value);
            }
            auto const sums = (inputs / 8 + 4) * u * products + (inputs + 4) * 0x1p-149;
            auto const found = static_cast<double>(out[static_cast<std::size_t>(row * recipe.outputs + output)]);
            worst = std::max(worst, std::abs(found - stepped) / (ties + sums));
            worst = std::max(worst, std::abs(found - exact) / (rounding + sums));
            if (std::isnan(found)) worst = 1e30;
        }
    }
    CHECK_MESSAGE(worst <= 1.0, name_of(recipe.format), " ", rows, " x ", recipe.outputs, " x ", recipe.inputs, ": ",
                  worst);
}

/// Every level gives the portable one's bits, which keep the bounds.
void check_levels(Recipe const& recipe, QuantisedWeight const& weight, Floats const& in, std::int64_t rows) {
    auto const reference = product(IsaLevel::portable, weight.source(), in, rows);
    check_bounds(recipe, weight, in, rows, reference);
    for (auto const level : test::isa_levels()) {
        CHECK_MESSAGE(is_same(product(level, weight.source(), in, rows), reference), name_of(level), " ",
                      name_of(recipe.format), " ", rows, " x ", recipe.outputs, " x ", recipe.inputs, " by ",
                      recipe.group);
    }
}

}  // namespace

TEST_CASE("int8 activations: all levels give the same bits within the derived bound, for any rows and extents") {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (std::int64_t const outputs : {1, 16, 37}) {
        for (auto const& recipe : recipes(outputs, outputs == 37 ? 3 : 1)) {
            QuantisedWeight const weight(recipe, random, [&] { return 0.01F * normal(random); });
            for (std::int64_t const rows : {1, 2, 3, 4, 5, 7, 8, 13, 17}) {
                check_levels(recipe, weight, filled(rows * recipe.inputs, [&] { return normal(random); }), rows);
            }
        }
    }
}

TEST_CASE("int8 activations: the largest codes times the largest numbers stay within all sums") {
    for (auto const& recipe : recipes(2, 1)) {
        for (auto const code : {std::byte{0x00}, std::byte{0x77}, std::byte{0x7F}, std::byte{0x80}, std::byte{0xFF}}) {
            QuantisedWeight const weight(
                recipe, [&] { return code; }, [] { return 1.0F; });
            Floats in(static_cast<std::size_t>(3 * recipe.inputs), 1.0F);
            std::fill_n(in.begin() + recipe.inputs, recipe.inputs, -1.0F);
            for (auto i = 2 * recipe.inputs; i < 3 * recipe.inputs; ++i)
                in[static_cast<std::size_t>(i)] = i % 2 == 0 ? 1.0F : -1.0F;
            check_levels(recipe, weight, in, 3);
        }
    }
}

TEST_CASE("int8 activations: of any size, with zeros and with one that is far above the others") {
    std::mt19937 random(12);
    std::normal_distribution<float> normal;
    for (auto const& recipe : recipes(5, 2)) {
        QuantisedWeight const weight(recipe, random, [&] { return 0.01F * normal(random); });
        for (float const size : {1e28F, 1e-20F, 0x1p-100F, 1e-35F, 1e-40F}) {
            auto in = filled(3 * recipe.inputs, [&] { return size * normal(random); });
            std::fill_n(in.begin() + recipe.inputs, recipe.inputs, 0.0F);
            in[static_cast<std::size_t>(2 * recipe.inputs + 5)] = 30.0F * size;
            check_levels(recipe, weight, in, 3);
        }
    }
}

TEST_CASE("int8 activations: a row's bits depend on no other row, output or thread") {
    std::mt19937 random(13);
    std::normal_distribution<float> normal;
    constexpr std::int64_t rows = 103;
    for (auto const& recipe : recipes(37, 1)) {
        QuantisedWeight const whole(recipe, random, [&] { return normal(random); });
        auto const in = filled(rows * recipe.inputs, [&] { return normal(random); });
        for (auto const level : test::isa_levels()) {
            HostContext context(options_at(level, ProductActivations::int8));
            HostContext lonely(options_at(level, ProductActivations::int8, 1));
            auto const weight = hold(context, whole.source());
            auto const all = multiply(context, weight, {0, recipe.inputs}, in, rows);
            for (std::int64_t const count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 97}) {
                auto const first = std::min(count + 3, rows - count);
                Floats const some(in.begin() + first * recipe.inputs, in.begin() + (first + count) * recipe.inputs);
                Floats const expected(all.begin() + first * 37, all.begin() + (first + count) * 37);
                CHECK_MESSAGE(is_same(multiply(context, weight, {0, recipe.inputs}, some, count), expected),
                              name_of(level), " ", name_of(recipe.format), " ", count);
            }
            auto const part = multiply(lonely, hold(lonely, whole.rows(5, 30)), {0, recipe.inputs}, in, 1);
            CHECK(is_same(part, Floats(all.begin() + 5, all.begin() + 30)));
        }
    }
}

TEST_CASE(
    "int8 activations: a range of a weight's inputs has the bits of a weight that holds them alone, alike in its "
    "blocks") {
    std::mt19937 random(14);
    std::normal_distribution<float> normal;
    for (auto const& recipe : recipes(21, 6)) {
        auto const grain =
            recipe.format == WeightFormat::int8 ? std::int64_t{1} : input_grain(recipe.format, recipe.group);
        QuantisedWeight const whole(recipe, random, [&] { return normal(random); });
        for (auto const level : test::isa_levels()) {
            HostContext context(options_at(level, ProductActivations::int8));
            auto const weight = hold(context, whole.source());
            for (auto range : {UnitRange{3 * grain, 5 * grain}, UnitRange{grain, recipe.inputs}, UnitRange{80, 160}}) {
                if (range.end > recipe.inputs || range.begin % grain != 0 || range.end % grain != 0) continue;
                if (range.begin >= range.end) continue;
                // Blocks are those of the weight: one that holds the range alone begins with as many zeros.
                auto const lead = range.begin % 32;
                if (lead != 0 && recipe.format != WeightFormat::int8) continue;
                UnitRange const rows[] = {{0, recipe.outputs}};
                auto const slice = slice_weight(whole.source(), rows, range, lead);
                REQUIRE(slice);
                auto const alone = hold(context, slice->source());
                auto const in = filled(3 * range.size(), [&] { return normal(random); });
                CHECK_MESSAGE(is_same(multiply(context, weight, range, in, 3),
                                      multiply(context, alone, {lead, lead + range.size()}, in, 3)),
                              name_of(level), " ", name_of(recipe.format), " ", range.begin);
            }
        }
    }
}

TEST_CASE("int8 activations: formats without whole numbers take activations in full, all others do not") {
    std::mt19937 random(15);
    std::normal_distribution<float> normal;
    for (auto const& unit : weight_format_table) {
        Recipe const recipe{unit.format, 3, inputs_of(unit.format, 1)};
        QuantisedWeight const weight(recipe, random, [&] { return normal(random); });
        if (traits(unit.format).block_elements == 1 && traits(unit.format).scales == ScalePlace::none) continue;
        auto const in = filled(recipe.inputs, [&] { return normal(random); });
        for (auto const level : test::isa_levels()) {
            auto const full = product(level, weight.source(), in, 1, ProductActivations::full);
            CHECK_MESSAGE(is_same(product(level, weight.source(), in, 1), full) != has_int8_product(unit.format),
                          name_of(unit.format), " ", name_of(level));
        }
    }
    CHECK_FALSE(has_int8_product(WeightFormat::nf4));
    CHECK_FALSE(has_int8_product(WeightFormat::bf16));
    CHECK(has_int8_product(WeightFormat::q6_k));
}

TEST_CASE("int8 activations: a value that is not finite makes its own row not a number, and no other") {
    std::mt19937 random(16);
    std::normal_distribution<float> normal;
    for (auto const& recipe : recipes(3, 2)) {
        QuantisedWeight const weight(recipe, random, [&] { return normal(random); });
        for (auto const level : test::isa_levels()) {
            for (float const odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
                auto in = filled(3 * recipe.inputs, [&] { return normal(random); });
                in[static_cast<std::size_t>(recipe.inputs + 7)] = odd;
                auto const out = product(level, weight.source(), in, 3);
                for (std::size_t output = 0; output < 3; ++output) {
                    CHECK(std::isfinite(out[output]));
                    CHECK(std::isnan(out[3 + output]));
                    CHECK(std::isfinite(out[6 + output]));
                }
            }
        }
    }
}

TEST_CASE("int8 activations: the policy has a name") {
    for (auto const activations : {ProductActivations::full, ProductActivations::int8, ProductActivations::bf16})
        CHECK(*parse_product_activations(name_of(activations)) == activations);
    auto const refused = parse_product_activations("fp8");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message() ==
          "product activations: fp8: is not what products round activations to; use full, int8 or bf16");
}
