// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/core/input_pieces.hpp>
#include <shardwise/parallel/weight_slice.hpp>

#include <doctest/doctest.h>

#include "../parallel/stored_weight.hpp"
#include "quantised_source.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t outputs = 45;

HostContext context_at(IsaLevel level) {
    return HostContext({.threads = 2, .is_pinned = false, .streams = StreamMode::immediate, .isa = level});
}

bool is_same(Floats const& a, Floats const& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

HostWeight held(HostContext& context, WeightSource const& source, UnitRange inputs, std::int64_t lead = 0) {
    UnitRange const rows[] = {{0, source.outputs}};
    auto const slice = slice_weight(source, rows, inputs, lead);
    REQUIRE(slice);
    auto weight = Host::hold_weight(context, slice->source());
    REQUIRE(weight);
    return std::move(*weight);
}

/// The columns of a range of `in` [rows, width], whose rows lie further apart than they are long.
TensorView<float const, 2, Host> columns(Floats const& in, std::int64_t rows, std::int64_t width, UnitRange range) {
    return TensorView<float const, 2, Host>(in.data(), {rows, width}).columns(range.begin, range.size());
}

Floats product(HostContext& context, HostWeight const& weight, UnitRange inputs, TensorView<float const, 2, Host> in) {
    auto stream = context.make_stream();
    Floats out(index(in.extent(0) * outputs));
    REQUIRE(Host::multiply(in, weight, inputs, {out.data(), {in.extent(0), outputs}}, stream));
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
    return out;
}

/// Each range of a weight gives the bits of a weight that holds these inputs alone, for any rows, at every level.
void check_ranges(WeightFormat format, std::int64_t inputs, std::vector<UnitRange> const& ranges) {
    Stored const stored(format, outputs, inputs);
    for (auto const level : test::isa_levels()) {
        auto context = context_at(level);
        auto const whole = held(context, stored.source, {0, inputs});
        for (auto const range : ranges) {
            auto const alone = held(context, stored.source, range);
            for (std::int64_t const rows : {1, 3, 17}) {
                CAPTURE(name_of(format));
                CAPTURE(name_of(level));
                CAPTURE(range.begin);
                CAPTURE(rows);
                auto const in = random_floats(rows * inputs, 3);
                auto const part = columns(in, rows, inputs, range);
                auto const expected = product(context, alone, {0, range.size()}, part);
                CHECK(is_same(product(context, whole, range, part), expected));
            }
        }
    }
}

/// Three leaves and two nodes, (a + b) and c, from `first` on.
ProductSums three_leaves(std::int64_t first, std::int64_t grain) {
    auto const at = [&](std::int64_t leaf) { return first + leaf * grain; };
    ProductSums sums;
    sums.inputs = {first, at(4)};
    sums.steps = {{{first, at(1)}, 0}, {{at(1), at(3)}, 2}, {{}, 0, 2}, {{at(3), at(4)}, 1}};
    sums.sums = 2;
    sums.scratch = 1;
    return sums;
}

}  // namespace

TEST_CASE("multiply: a range of a weight's inputs has the bits of a weight that holds them alone") {
    for (auto const format : all_weight_formats) {
        // K blocks of 256 and stretches of 512: ranges begin on a stretch, within one, and in the last, which is shorter.
        auto const grain = std::lcm<std::int64_t>(traits(format).block_elements, 32);
        auto const inputs = 7 * grain;
        check_ranges(format, inputs,
                     {{0, 3 * grain}, {grain, 4 * grain}, {3 * grain, inputs}, {6 * grain, inputs}, {0, inputs}});
    }
}

TEST_CASE("multiply: a range of a dense weight begins at any input, within a pair of bf16 too") {
    for (auto const format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16})
        check_ranges(format, 1301, {{1, 2}, {3, 98}, {7, 608}, {5, 1301}, {2, 1301}});
}

TEST_CASE("multiply: a range of int8 that lies alike in its blocks has the same bits in every weight") {
    constexpr std::int64_t inputs = 400;
    UnitRange const piece{160 + 80, 160 + 160};
    Stored const stored(WeightFormat::int8, outputs, inputs);
    for (auto const level : test::isa_levels()) {
        auto context = context_at(level);
        auto const whole = held(context, stored.source, {0, inputs});
        auto const alone = held(context, stored.source, piece, piece.begin % 32);
        CHECK(alone.inputs() == 96);
        for (std::int64_t const rows : {1, 3, 17}) {
            CAPTURE(name_of(level));
            CAPTURE(rows);
            auto const in = random_floats(rows * inputs, 5);
            auto const part = columns(in, rows, inputs, piece);
            auto const made = product(context, whole, piece, part);
            CHECK(is_same(made, product(context, alone, {16, 96}, part)));
        }
    }
}

TEST_CASE("multiply_sums: the bits of products by each range and of additions, for any rows and panels") {
    for (auto const format : all_weight_formats) {
        auto const grain = std::lcm<std::int64_t>(traits(format).block_elements, 32);
        auto const first = grain;
        Stored const stored(format, outputs, 6 * grain);
        auto const sums = three_leaves(first, grain);
        for (auto const level : test::isa_levels()) {
            auto context = context_at(level);
            auto const weight = held(context, stored.source, {0, 6 * grain});
            for (std::int64_t const rows : {1, 3, 17, 101}) {
                CAPTURE(name_of(format));
                CAPTURE(name_of(level));
                CAPTURE(rows);
                auto const in = random_floats(rows * 4 * grain, 6);
                auto const leaf = [&](std::int64_t begin, std::int64_t end) {
                    UnitRange const range{begin * grain, end * grain};
                    auto const part = columns(in, rows, 4 * grain, range);
                    return product(context, weight, {first + range.begin, first + range.end}, part);
                };
                auto left = leaf(0, 1);
                auto const right = leaf(1, 3);
                for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
                // Sums further apart than they are long.
                auto const apart = rows * outputs + 5;
                Floats made(index(2 * apart), std::nanf(""));
                auto stream = context.make_stream();
                TensorView<float, 3, Host> const out(made.data(), {2, rows, outputs}, {apart, outputs, 1});
                REQUIRE(Host::multiply_sums({in.data(), {rows, 4 * grain}}, weight, sums, out, stream));
                REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
                Floats const first_sum(made.begin(), made.begin() + rows * outputs);
                Floats const second_sum(made.begin() + apart, made.begin() + apart + rows * outputs);
                CHECK(is_same(first_sum, left));
                CHECK(is_same(second_sum, leaf(3, 4)));
                CHECK(std::isnan(made[index(rows * outputs)]));
                CHECK(std::isnan(made.back()));
            }
        }
    }
}

TEST_CASE("multiply: ranges that leave a weight or part its blocks, and sums of another number, are refused") {
    auto context = context_at(IsaLevel::portable);
    auto stream = context.make_stream();
    Stored const stored(WeightFormat::q8_0, outputs, 96);
    auto const weight = held(context, stored.source, {0, 96});
    Floats const in(96);
    Floats out(2 * outputs);
    auto const refused = [&](UnitRange inputs, std::int64_t width) {
        auto const done = Host::multiply({in.data(), {1, width}}, weight, inputs, {out.data(), {1, outputs}}, stream);
        return done ? std::string() : done.error().message();
    };
    CHECK(refused({32, 96}, 64).empty());
    CHECK(refused({32, 128}, 96).find("leaves the weight") != std::string::npos);
    CHECK(refused({-32, 32}, 64).find("leaves the weight") != std::string::npos);
    CHECK(refused({16, 96}, 80).find("begins within a block") != std::string::npos);
    CHECK(refused({0, 48}, 48).find("ends within a block") != std::string::npos);
    CHECK(refused({32, 96}, 96).find("another width") != std::string::npos);
    auto const refused_sums = [&](List<ProductStep> steps, std::int64_t scratch) {
        ProductSums const sums{{0, 64}, std::move(steps), 1, scratch};
        auto const done =
            Host::multiply_sums({in.data(), {1, 64}}, weight, sums, {out.data(), {1, 1, outputs}}, stream);
        return done ? std::string() : done.error().message();
    };
    auto const product_in = ProductStep::no_slot;
    CHECK(refused_sums({{{0, 32}, 0, product_in}, {{32, 64}, 1, product_in}, {{}, 0, 1}}, 1).empty());
    CHECK(refused_sums({{{0, 64}, 0, product_in}}, 512).empty());
    CHECK(refused_sums({{{0, 64}, 0, product_in}}, 1025).find("more slots") != std::string::npos);
    CHECK(refused_sums({{{0, 64}, 1, product_in}}, 0).find("slot that is none") != std::string::npos);
    CHECK(refused_sums({{{0, 64}, -1, product_in}}, 0).find("slot that is none") != std::string::npos);
    CHECK(refused_sums({{{0, 64}, 0, product_in}, {{}, 0, 2}}, 1).find("slot that is none") != std::string::npos);
    CHECK(refused_sums({{{32, 96}, 0, product_in}}, 0).find("leaves the inputs") != std::string::npos);
    CHECK(refused_sums({{{16, 64}, 0, product_in}}, 0).find("begins within a block") != std::string::npos);
    CHECK(refused_sums({{{0, 48}, 0, product_in}}, 0).find("ends within a block") != std::string::npos);
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
    ProductSums const sums{{0, 96}, {{{0, 96}, 0, product_in}}, 1, 0};
    auto const made = Host::multiply_sums({in.data(), {1, 96}}, weight, sums, {out.data(), {2, 1, outputs}}, stream);
    CHECK(made.error().message().find("another number of sums") != std::string::npos);
}
