// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/detail/launch_pieces.hpp>
#include <shardwise/kernels/quantize.hpp>
#include <shardwise/kernels/scale_rows.hpp>
#include <shardwise/kernels/softmax.hpp>

#include <doctest/doctest.h>

#include "row_matrices.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// Longer than two pieces of 16 Ki, no multiple of any vector.
constexpr std::int64_t long_width = 40'007;

template <class T>
bool is_same(Matrix<T> const& a, Matrix<T> const& b) {
    for (std::size_t i = 0; i < a.values.size(); ++i) {
        auto const left = static_cast<float>(a.values[i]);
        auto const right = static_cast<float>(b.values[i]);
        if (left != right && !(std::isnan(left) && std::isnan(right))) return false;
    }
    return a.values.size() == b.values.size();
}

std::vector<std::byte> sized(std::int64_t bytes) {
    return std::vector<std::byte>(static_cast<std::size_t>(bytes));
}

}  // namespace

TEST_CASE("RowPieces: has each column of each row once, pieces begin at multiples of the step") {
    for (std::int64_t const width : {0, 1, 63, 64, 1000, 4096}) {
        for (std::int64_t const step : {1, 7, 64, 4096}) {
            for (std::int64_t const elements : {1, 100, 2048}) {
                detail::RowPieces const pieces(3, width, step, elements);
                std::int64_t row = 0;
                std::int64_t at = 0;
                int wrong = 0;
                for (std::int64_t piece = 0; piece < pieces.count(); ++piece) {
                    if (at == width && row < pieces.row(piece)) {
                        ++row;
                        at = 0;
                    }
                    wrong += pieces.row(piece) == row && pieces.begin(piece) == at ? 0 : 1;
                    wrong += at % step == 0 && pieces.end(piece) >= at ? 0 : 1;
                    at = pieces.end(piece);
                }
                CHECK(wrong == 0);
                CHECK(at == width);
                CHECK(row == 2);
            }
        }
    }
}

TEST_CASE("launch_pieces: all threads of a context work at one long row") {
    constexpr int threads = 3;
    HostContext context({.threads = threads});
    auto stream = context.make_stream();
    std::atomic<int> arrived{0};
    std::atomic<int> left_alone{0};
    // Each piece waits for the others: one thread that took two would wait for itself.
    auto const body = [&](std::int64_t, std::int64_t, std::int64_t) {
        arrived.fetch_add(1);
        auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (arrived.load() < threads && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        if (arrived.load() < threads) left_alone.fetch_add(1);
    };
    detail::launch_pieces({1, 3 * 16 * 1024}, body, stream);
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(300))));
    CHECK(arrived.load() == threads);
    CHECK(left_alone.load() == 0);
}

TEST_CASE_TEMPLATE("activations: a long row has the bits of its elements, whatever the threads", T, float, Bfloat16) {
    auto const gate = random_matrix<T>(2, long_width, 1);
    auto const up = random_matrix<T>(2, long_width, 2);
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        for (auto const kind : {ActivationKind::silu, ActivationKind::gelu}) {
            Matrix<T> first[2] = {{2, long_width}, {2, long_width}};
            for (int const threads : {1, 4}) {
                HostContext context({.threads = threads, .isa = level});
                auto stream = context.make_stream();
                Matrix<T> one{2, long_width};
                Matrix<T> gated{2, long_width};
                REQUIRE(activation<T>(gate.read(), one.view(), kind, stream));
                REQUIRE(gated_activation<T>(gate.read(), up.read(), gated.view(), kind, stream));
                if (threads == 1) {
                    first[0] = one;
                    first[1] = gated;
                }
                CHECK(is_same(one, first[0]));
                CHECK(is_same(gated, first[1]));
                // Some columns alone, across the edges of pieces.
                for (std::int64_t const begin : {0, 16'380, 32'760, 40'000}) {
                    Matrix<T> part{2, 7};
                    REQUIRE(activation<T>(gate.read().columns(begin, 7), part.view(), kind, stream));
                    Matrix<T> gated_part{2, 7};
                    REQUIRE(gated_activation<T>(gate.read().columns(begin, 7), up.read().columns(begin, 7),
                                                gated_part.view(), kind, stream));
                    int wrong = 0;
                    for (std::int64_t i = 0; i < 14; ++i) {
                        wrong += part.at(i / 7, i % 7) == one.at(i / 7, begin + i % 7) ? 0 : 1;
                        wrong += gated_part.at(i / 7, i % 7) == gated.at(i / 7, begin + i % 7) ? 0 : 1;
                    }
                    CHECK(wrong == 0);
                }
            }
        }
    }
}

TEST_CASE("scale_rows: a long row is scaled whole") {
    auto const gate = random_matrix<float>(2, 1, 3);
    auto const in = random_matrix<float>(2, long_width, 4);
    Matrix<float> out{2, long_width};
    HostContext context({.threads = 3});
    auto stream = context.make_stream();
    REQUIRE(scale_rows(gate.read(), in.read(), out.view(), ActivationKind::sigmoid, stream));
    int wrong = 0;
    for (std::int64_t i = 0; i < 2 * long_width; ++i) {
        auto const row = i / long_width;
        auto const factor = activate(gate.values[static_cast<std::size_t>(row)], ActivationKind::sigmoid);
        wrong += out.values[static_cast<std::size_t>(i)] == factor * in.values[static_cast<std::size_t>(i)] ? 0 : 1;
    }
    CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("softmax: a long row equals float64, in place too, with the same bits whatever the threads", T,
                   float, Bfloat16) {
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        auto in = random_matrix<T>(5, long_width, 5, 8.0F);
        // The greatest in the last piece; one number that is none; nothing but minus infinity; that but for the end; that and
        // one number that is none.
        in.values[static_cast<std::size_t>(long_width - 3)] = T(50.0F);
        in.values[static_cast<std::size_t>(2 * long_width - 20'000)] = T(NAN);
        for (auto i = 2 * long_width; i < 3 * long_width; ++i) in.values[static_cast<std::size_t>(i)] = T(-infinity);
        for (auto i = 3 * long_width; i < 4 * long_width - 9; ++i)
            in.values[static_cast<std::size_t>(i)] = T(-infinity);
        for (auto i = 4 * long_width; i < 5 * long_width; ++i) in.values[static_cast<std::size_t>(i)] = T(-infinity);
        in.values[static_cast<std::size_t>(4 * long_width + 20'000)] = T(NAN);
        Matrix<T> first{5, long_width};
        for (int const threads : {1, 2, 5}) {
            HostContext context({.threads = threads, .isa = level});
            auto stream = context.make_stream();
            auto out = in;
            REQUIRE(softmax<T>(out.read(), out.view(), stream));
            REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
            if (threads == 1) first = out;
            CHECK(is_same(out, first));
        }
        int wrong = 0;
        for (std::int64_t row = 0; row < 5; ++row) {
            auto largest = -std::numeric_limits<double>::infinity();
            for (std::int64_t i = 0; i < long_width; ++i) largest = std::max(largest, in.at(row, i));
            double sum = 0.0;
            for (std::int64_t i = 0; i < long_width; ++i) sum += std::exp(in.at(row, i) - largest);
            for (std::int64_t i = 0; i < long_width; ++i) {
                auto const got = first.at(row, i);
                if (row == 1 || row == 4) {
                    wrong += std::isnan(got) ? 0 : 1;
                    continue;
                }
                auto const distance = largest - in.at(row, i);
                auto const expected = row == 2 ? 0.0 : std::exp(-distance) / sum;
                // exp within two units in the last place, the sum's inverse and the product; the rounded distance
                // moves the exponential by its own size.
                auto const roundings = 6.0 + (expected > 0.0 ? distance : 0.0);
                auto const allowed = (roundings * 0x1p-24 + 1.01 * unit_roundoff<T>)*expected + 0x1p-126;
                wrong += std::abs(got - expected) <= allowed ? 0 : 1;
            }
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("quantize and dequantize: a long row has the bits of its blocks") {
    constexpr std::int64_t rows = 80;
    constexpr std::int64_t width = 512;
    auto const values = random_matrix<float>(rows, width, 6);
    HostContext context({.threads = 3});
    auto stream = context.make_stream();
    for (auto const format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8,
                              WeightFormat::int4, WeightFormat::nf4, WeightFormat::mxfp4, WeightFormat::q4_0,
                              WeightFormat::q4_1, WeightFormat::q5_0, WeightFormat::q5_1, WeightFormat::q8_0}) {
        CAPTURE(name_of(format));
        // A row's scale of int8 is not a block's: there only the values are compared.
        bool const is_by_row = format == WeightFormat::int8;
        for (std::int64_t const group : {64, 512}) {
            auto const bytes = detail::source_bytes({format, rows, width, {}, {}, group});
            auto const long_bytes = detail::source_bytes({format, 1, rows * width, {}, {}, group});
            auto data = sized(bytes->data);
            auto scales = sized(bytes->scales);
            auto long_data = sized(long_bytes->data);
            auto long_scales = sized(long_bytes->scales);
            TensorView<float const, 2, Host> const long_row{values.values.data(), {1, rows * width}};
            REQUIRE(quantize(values.read(), format, data, scales, stream, group));
            REQUIRE(quantize(long_row, format, long_data, long_scales, stream, group));
            Matrix<float> out{rows, width};
            Matrix<float> long_out{rows, width};
            REQUIRE(dequantize({format, rows, width, data, scales, group}, out.view(), stream));
            REQUIRE(dequantize({format, 1, rows * width, long_data, long_scales, group},
                               {long_out.values.data(), {1, rows * width}}, stream));
            if (!is_by_row) {
                CHECK(data == long_data);
                CHECK(scales == long_scales);
                CHECK(is_same(out, long_out));
                continue;
            }
            float scale = 0.0F;
            std::memcpy(&scale, long_scales.data(), sizeof scale);
            int wrong = 0;
            for (std::size_t i = 0; i < out.values.size(); ++i) {
                auto const q = static_cast<float>(static_cast<std::int8_t>(long_data[i]));
                auto const distance = std::abs(long_out.values[i] - values.values[i]);
                wrong += long_out.values[i] == scale * q && distance <= scale * 0.5001F ? 0 : 1;
            }
            CHECK(wrong == 0);
        }
    }
}
