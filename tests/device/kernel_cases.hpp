// SPDX-License-Identifier: Apache-2.0
#pragma once

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

template <class T, class Weight = T, class B>
void check_rms_norm(Bench<B>& bench, std::int64_t rows, std::int64_t width, std::int64_t stride, bool in_place,
                    float epsilon = 1e-5F, float size = 1.0F, std::int64_t shift = 0) {
    // Rows begin `shift` elements after the memory.
    auto in = numbers<T>(rows * stride + shift, 11);
    for (auto& value : in) value = T(static_cast<float>(value) * size);
    auto const weight = numbers<Weight>(width + shift, 12);
    constexpr float offset = 1.0F;
    auto device_in = bench.send(in);
    auto device_weight = bench.send(weight);
    auto device_out = bench.send(std::vector<T>(static_cast<std::size_t>(rows * stride + shift)));
    auto& target = in_place ? device_in : device_out;
    TensorView<T const, 2, B> const from(device_in.data() + shift, {rows, width}, stride);
    TensorView<T, 2, B> const to(target.data() + shift, {rows, width}, stride);
    TensorView<Weight const, 1, B> const parameters(device_weight.data() + shift, {width});
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

TEST_SUITE_END();
