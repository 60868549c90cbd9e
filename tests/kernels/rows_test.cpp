// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/embedding.hpp>
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/kernels/rope_turns.hpp>
#include <shardwise/kernels/scale_rows.hpp>
#include <shardwise/kernels/softmax.hpp>

#include <doctest/doctest.h>

#include "row_matrices.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE_TEMPLATE("rms_norm: equals the definition in float64", T, float, Bfloat16, Float16) {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        for (auto const [rows, width] : shapes) {
            for (float const offset : {0.0F, 1.0F}) {
                auto const in = random_matrix<T>(rows, width, 1);
                auto const weight = random_matrix<T>(1, width, 2);
                Matrix<T> out{rows, width};
                REQUIRE(rms_norm<T>(in.read(), weight.flat(), out.view(), 1e-5F, stream, offset));
                // float: the scale, the product with it, weight + offset, the product with that.
                check_close<T>(
                    out,
                    [&](std::int64_t row, std::int64_t i) {
                        double squares = 0.0;
                        for (std::int64_t k = 0; k < in.width; ++k) squares += in.at(row, k) * in.at(row, k);
                        auto const scale =
                            1.0 / std::sqrt(squares / static_cast<double>(in.width) + static_cast<double>(1e-5F));
                        return in.at(row, i) * scale * (weight.at(0, i) + static_cast<double>(offset));
                    },
                    4.0);
                auto aliased = in;
                REQUIRE(rms_norm<T>(aliased.read(), weight.flat(), aliased.view(), 1e-5F, stream, offset));
                CHECK(std::equal(out.values.begin(), out.values.end(), aliased.values.begin(),
                                 [](T a, T b) { return static_cast<float>(a) == static_cast<float>(b); }));
            }
        }
    }
}

TEST_CASE_TEMPLATE("layer_norm: equals the definition in float64, also far from zero and without a bias", T, float,
                   Bfloat16, Float16) {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        for (auto const [rows, width] : shapes) {
            for (float const far : {0.0F, 1000.0F}) {
                auto in = random_matrix<T>(rows, width, 3);
                for (auto& value : in.values) value = T(static_cast<float>(value) + far);
                auto const weight = random_matrix<T>(1, width, 4);
                auto const bias = random_matrix<T>(1, width, 5);
                for (bool const has_bias : {false, true}) {
                    Matrix<T> out{rows, width};
                    auto const shift = has_bias ? bias.flat() : TensorView<T const, 1, Host>{};
                    REQUIRE(layer_norm<T>(in.read(), weight.flat(), shift, out.view(), 1e-5F, stream));
                    // The bias may cancel the rest: the floor is the size of its summands, at most about 10.
                    check_close<T>(
                        out,
                        [&](std::int64_t row, std::int64_t i) {
                            double mean = 0.0;
                            for (std::int64_t k = 0; k < in.width; ++k)
                                mean += in.at(row, k) / static_cast<double>(in.width);
                            double variance = 0.0;
                            for (std::int64_t k = 0; k < in.width; ++k) {
                                variance +=
                                    (in.at(row, k) - mean) * (in.at(row, k) - mean) / static_cast<double>(in.width);
                            }
                            return (in.at(row, i) - mean) / std::sqrt(variance + static_cast<double>(1e-5F)) *
                                       weight.at(0, i) +
                                   (has_bias ? bias.at(0, i) : 0.0);
                        },
                        5.0, 20.0);
                }
            }
        }
    }
}

TEST_CASE("scale_rows: one number's activation scales a whole row, in place too") {
    auto const gate = random_matrix<float>(5, 1, 1);
    auto rows = random_matrix<float>(5, 33, 2);
    auto const before = rows;
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    REQUIRE(scale_rows(gate.read(), rows.read(), rows.view(), ActivationKind::sigmoid, stream));
    auto const factor = [&](std::int64_t row) { return 1.0 / (1.0 + std::exp(-gate.at(row, 0))); };
    check_close(
        rows, [&](std::int64_t row, std::int64_t i) { return factor(row) * before.at(row, i); }, 8.0);
    auto const refused = scale_rows(before.read(), before.read(), rows.view(), ActivationKind::sigmoid, stream);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("one number per row") != std::string::npos);
}

TEST_CASE_TEMPLATE("rope by turns that were made once has the bits of rope, at every level and in both layouts", T,
                   float, Bfloat16, Float16) {
    constexpr std::int64_t pairs = 9;
    constexpr std::int64_t head_dim = 24;
    std::vector<std::int32_t> const positions{0, 1, -1, 77, 1'000'003};
    std::vector<float> frequencies;
    for (std::int64_t i = 0; i < pairs; ++i) frequencies.push_back(std::pow(10000.0F, -static_cast<float>(i) / 9.0F));
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        for (auto const layout : {RopeLayout::half, RopeLayout::interleaved}) {
            auto computed = random_matrix<T>(5, 3 * head_dim, 41);
            auto read = computed;
            TensorView<std::int32_t const, 1, Host> const places(positions.data(), {5});
            TensorView<float const, 1, Host> const steps(frequencies.data(), {pairs});
            // Rows that lie apart.
            std::vector<float> memory(5 * 20);
            TensorView<float, 2, Host> const turns(memory.data(), {5, 2 * pairs}, 20);
            REQUIRE(rope<T>(computed.view(), places, steps, head_dim, layout, stream, 1.25F, 6));
            REQUIRE(rope_turns(places, steps, turns, stream, 1.25F));
            REQUIRE(rope<T>(read.view(), turns, head_dim, layout, stream, 6));
            for (std::size_t i = 0; i < computed.values.size(); ++i)
                REQUIRE(static_cast<float>(read.values[i]) == static_cast<float>(computed.values[i]));
        }
    }
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto values = random_matrix<float>(2, 8, 1);
    auto turns = random_matrix<float>(2, 4, 2);
    auto odd = random_matrix<float>(2, 3, 2);
    auto fewer = random_matrix<float>(1, 4, 2);
    for (auto const& refused : {rope<float>(values.view(), odd.read(), 4, RopeLayout::half, stream),
                                rope<float>(values.view(), fewer.read(), 4, RopeLayout::half, stream),
                                rope<float>(values.view(), turns.read(), 3, RopeLayout::half, stream),
                                rope<float>(values.view(), turns.read(), 4, RopeLayout::half, stream, 1)}) {
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == ErrorCode::shape_mismatch);
    }
}

TEST_CASE_TEMPLATE("softmax: rows sum to one, large values do not overflow, masked rows are zero", T, float, Bfloat16,
                   Float16) {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        for (auto const [rows, width] : shapes) {
            auto in = random_matrix<T>(rows, width, 7, 30.0F);
            auto const minus_infinity = T(-std::numeric_limits<float>::infinity());
            in.values[0] = minus_infinity;
            Matrix<T> out{rows, width};
            REQUIRE(softmax<T>(in.read(), out.view(), stream));
            int wrong = 0;
            for (std::int64_t row = 0; row < rows; ++row) {
                double largest = -std::numeric_limits<double>::infinity();
                for (std::int64_t k = 0; k < width; ++k) largest = std::max(largest, in.at(row, k));
                double sum = 0.0;
                for (std::int64_t k = 0; k < width; ++k) sum += std::exp(in.at(row, k) - largest);
                for (std::int64_t i = 0; i < width; ++i) {
                    // The one row of one masked element.
                    bool const is_masked = std::isinf(in.at(row, i));
                    auto const distance = is_masked ? 0.0 : largest - in.at(row, i);
                    auto const expected = is_masked ? 0.0 : std::exp(-distance) / sum;
                    // exp within two units in the last place, the sum's inverse and the product; the rounded distance
                    // moves the exponential by its own size.
                    auto const least = std::same_as<T, Float16> ? 0x1p-25 : 0x1p-126;
                    auto const allowed = ((6.0 + distance) * 0x1p-24 + 1.01 * unit_roundoff<T>)*expected + least;
                    wrong += std::abs(out.at(row, i) - expected) <= allowed ? 0 : 1;
                }
            }
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("embedding: a table and the sum over its shards give the same rows; ids outside of a shard give zeros") {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    auto const table = random_matrix<float>(50, 24, 8);
    std::vector<std::int32_t> ids{0, 49, 7, 7, 25, 24};
    TensorView<std::int32_t const, 1, Host> const id_view{ids.data(), {6}};
    Matrix<float> whole{6, 24};
    REQUIRE(embedding<float>(id_view, table.read(), whole.view(), stream));
    for (std::int64_t token = 0; token < 6; ++token) {
        for (std::int64_t i = 0; i < 24; ++i)
            CHECK(whole.at(token, i) == table.at(ids[static_cast<std::size_t>(token)], i));
    }
    Matrix<float> low{6, 24};
    Matrix<float> high{6, 24};
    REQUIRE(embedding<float>(id_view, table.read().rows(0, 25), low.view(), stream));
    REQUIRE(embedding<float>(id_view, table.read().rows(25, 25), high.view(), stream, 25));
    for (std::size_t i = 0; i < whole.values.size(); ++i) {
        CHECK(low.values[i] + high.values[i] == whole.values[i]);
        CHECK((low.values[i] == 0.0F || high.values[i] == 0.0F));
    }
}

TEST_CASE("kernels over rows: rows of no width need no memory") {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    std::vector<std::int32_t> const ids{0, 5, 1};
    TensorView<float, 2, Host> const none{nullptr, {3, 0}};
    TensorView<float const, 2, Host> const in = none;
    TensorView<float const, 1, Host> const weight{nullptr, {0}};
    CHECK(embedding<float>({ids.data(), {3}}, in, none, stream));
    CHECK(rms_norm<float>(in, weight, none, 1e-5F, stream));
    CHECK(layer_norm<float>(in, weight, weight, none, 1e-5F, stream));
    CHECK(softmax<float>(in, none, stream));
    CHECK(activation<float>(in, none, ActivationKind::gelu, stream));
    CHECK(gated_activation<float>(in, in, none, ActivationKind::silu, stream));
    CHECK(rope<float>(none, {ids.data(), {3}}, {nullptr, {0}}, 4, RopeLayout::half, stream));
    CHECK(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
}

TEST_CASE("rope: turns the pairs of either layout by position times frequency and leaves the rest of a head alone") {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        constexpr std::int64_t head_dim = 10;
        constexpr std::int64_t pairs = 4;
        std::vector<float> const frequencies{1.0F, 0.1F, 0.01F, 0.001F};
        std::vector<std::int32_t> const positions{0, 1, 17, 131'071};
        auto const before = random_matrix<float>(4, 3 * head_dim, 9);
        for (auto const layout : {RopeLayout::half, RopeLayout::interleaved}) {
            for (std::int64_t const first : {0, 2}) {
                auto after = before;
                REQUIRE(rope<float>(after.view(), {positions.data(), {4}}, {frequencies.data(), {pairs}}, head_dim,
                                    layout, stream, 1.5F, first));
                check_close<float>(
                    after,
                    [&](std::int64_t token, std::int64_t i) {
                        auto const within = i % head_dim - first;
                        if (within < 0 || within >= 2 * pairs) return before.at(token, i);
                        bool const is_half = layout == RopeLayout::half;
                        auto const pair = is_half ? within % pairs : within / 2;
                        bool const is_first = is_half ? within < pairs : within % 2 == 0;
                        auto const partner = i + (is_first ? 1 : -1) * (is_half ? pairs : 1);
                        auto const angle = positions[static_cast<std::size_t>(token)] *
                                           static_cast<double>(frequencies[static_cast<std::size_t>(pair)]);
                        return 1.5 * (before.at(token, i) * std::cos(angle) +
                                      (is_first ? -1.0 : 1.0) * before.at(token, partner) * std::sin(angle));
                    },
                    6.0, 10.0);
            }
        }
    }
}

TEST_CASE_TEMPLATE("kernels over rows: lanes of any number and rows that lie apart give the same bits as rows alone", T,
                   float, Bfloat16, Float16) {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 3, .isa = level});
        auto stream = context.make_stream();
        for (std::int64_t const width : {1, 2, 15, 17, 34}) {
            constexpr std::int64_t rows = 3;
            auto const gap = width + 5;
            auto const in = random_matrix<T>(rows, gap, 20);
            auto const parameters = random_matrix<T>(2, width, 21);
            auto const weight = parameters.flat().part(0, width);
            auto const bias = parameters.flat().part(width, width);
            int wrong = 0;
            for (int kernel = 0; kernel < 6; ++kernel) {
                auto const run = [&](TensorView<T const, 2, Host> from, TensorView<T, 2, Host> to) {
                    switch (kernel) {
                        case 0:
                            return rms_norm<T>(from, weight, to, 1e-5F, stream);
                        case 1:
                            return layer_norm<T>(from, weight, bias, to, 1e-5F, stream);
                        case 2:
                            return softmax<T>(from, to, stream);
                        case 3:
                            return activation<T>(from, to, ActivationKind::gelu_tanh, stream);
                        case 4:
                            return gated_activation<T>(from, from, to, ActivationKind::silu, stream);
                        default:
                            return gated_activation<T>(from, from, to, ActivationKind::gelu, stream);
                    }
                };
                Matrix<T> out{rows, gap};
                for (auto& value : out.values) value = T(77.0F);
                REQUIRE(run(in.read().columns(0, width), out.view().columns(0, width)));
                for (std::int64_t row = 0; row < rows; ++row) {
                    Matrix<T> alone{1, width};
                    REQUIRE(run(in.read().columns(0, width).rows(row, 1), alone.view()));
                    for (std::int64_t i = 0; i < gap; ++i) {
                        auto const got = out.at(row, i);
                        if (i < width ? got != alone.at(0, i) : got != 77.0) ++wrong;
                    }
                }
            }
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("kernels over rows: no rows, NaN and infinities") {
    auto const nan = std::numeric_limits<float>::quiet_NaN();
    auto const infinity = std::numeric_limits<float>::infinity();
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        auto const weight = random_matrix<float>(1, 20, 12);
        Matrix<float> none{0, 20};
        CHECK(rms_norm<float>(none.read(), weight.flat(), none.view(), 1e-5F, stream));
        CHECK(softmax<float>(none.read(), none.view(), stream));
        CHECK(gated_activation<float>(none.read(), none.read(), none.view(), ActivationKind::silu, stream));
        // What is no number stays so, in its row alone, wherever in a register it lies.
        for (std::size_t const at : {0U, 3U, 18U, 19U}) {
            auto in = random_matrix<float>(2, 20, 13);
            in.values[at] = nan;
            Matrix<float> out{2, 20};
            for (int kernel = 0; kernel < 3; ++kernel) {
                if (kernel == 0) REQUIRE(rms_norm<float>(in.read(), weight.flat(), out.view(), 1e-5F, stream));
                if (kernel == 1) REQUIRE(layer_norm<float>(in.read(), weight.flat(), {}, out.view(), 1e-5F, stream));
                if (kernel == 2) REQUIRE(softmax<float>(in.read(), out.view(), stream));
                int wrong = 0;
                for (std::int64_t i = 0; i < 20; ++i) {
                    wrong += std::isnan(out.at(0, i)) ? 0 : 1;
                    wrong += std::isfinite(out.at(1, i)) ? 0 : 1;
                }
                CHECK(wrong == 0);
            }
            for (auto const kind : {ActivationKind::silu, ActivationKind::gelu, ActivationKind::gelu_tanh,
                                    ActivationKind::relu, ActivationKind::tanh, ActivationKind::quick_gelu,
                                    ActivationKind::sigmoid, ActivationKind::swiglu_clamped}) {
                REQUIRE(activation<float>(in.read(), out.view(), kind, stream));
                CHECK(std::isnan(out.values[at]));
                CHECK(std::isnan(activate(nan, kind)));
            }
            REQUIRE(gated_activation<float>(in.read(), in.read(), out.view(), ActivationKind::swiglu_clamped, stream));
            CHECK(std::isnan(out.values[at]));
            CHECK(std::isfinite(out.values[at == 0 ? 1 : 0]));
            for (auto& value : in.values) value = -infinity;
            REQUIRE(softmax<float>(in.read(), out.view(), stream));
            CHECK(out.values[7] == 0.0F);
            in.values[at] = nan;
            REQUIRE(softmax<float>(in.read(), out.view(), stream));
            CHECK(std::isnan(out.values[7]));
            in.values[at] = -88.0F;
            REQUIRE(softmax<float>(in.read(), out.view(), stream));
            CHECK(out.values[at] == 1.0F);
        }
        Matrix<float> far{1, 5, {infinity, -infinity, 1e30F, -1e30F, -104.0F}};
        Matrix<float> out{1, 5};
        REQUIRE(activation<float>(far.read(), out.view(), ActivationKind::sigmoid, stream));
        CHECK(out.values == std::vector<float>{1.0F, 0.0F, 1.0F, 0.0F, 0.0F});
        REQUIRE(activation<float>(far.read(), out.view(), ActivationKind::silu, stream));
        CHECK(out.values[0] == infinity);
        CHECK(out.values[2] == 1e30F);
        CHECK(out.values[3] == 0.0F);
    }
}

TEST_CASE("kernels over rows refuse shapes that do not go together, and say which") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const in = random_matrix<float>(2, 8, 10);
    Matrix<float> narrow{2, 7};
    Matrix<float> out{2, 8};
    auto const weight = random_matrix<float>(1, 7, 11);
    CHECK(rms_norm<float>(in.read(), weight.flat(), out.view(), 1e-5F, stream).error().message() ==
          "rms_norm: the parameters are not as wide as a row (got 7, expected 8)");
    CHECK(softmax<float>(in.read(), narrow.view(), stream).error().code() == ErrorCode::shape_mismatch);
    auto const gated = [&](TensorView<float const, 2, Host> up) {
        auto const done = gated_activation<float>(in.read(), up, out.view(), ActivationKind::silu, stream);
        return done ? std::string{} : std::string(done.error().message());
    };
    CHECK(gated(narrow.read()) == "gated_activation: up: is not as wide as the gate (got 7, expected 8)");
    CHECK(gated(in.read().rows(0, 1)) ==
          "gated_activation: up: has another number of rows than the gate (got 1, expected 2)");
    std::vector<std::int32_t> const ids{1};
    CHECK(embedding<float>({ids.data(), {1}}, in.read(), out.view(), stream).error().code() ==
          ErrorCode::shape_mismatch);
    std::vector<float> const frequencies(5, 1.0F);
    CHECK(rope<float>(out.view(), {ids.data(), {1}}, {frequencies.data(), {5}}, 8, RopeLayout::half, stream)
              .error()
              .message() == "rope: more elements turn than a head has (got 10, expected at most 8)");
}
