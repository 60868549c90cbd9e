// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/move_values.hpp>

#include "backends.hpp"
#include "launch_body.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::AddIndex;
using shardwise::testing::Bench;
using shardwise::testing::numbers;
using shardwise::testing::open_bench;
using shardwise::testing::TestDevice;

namespace {

/// A matrix as `gemm` takes it, and its element (i, j) after the transposition.
template <class T>
struct Factor {
    std::vector<T> values;
    std::int64_t rows;
    std::int64_t columns;
    bool is_transposed;

    Factor(std::int64_t op_rows, std::int64_t op_columns, bool transposed, unsigned seed)
        : values(numbers<T>(op_rows * op_columns, seed)),
          rows(transposed ? op_columns : op_rows),
          columns(transposed ? op_rows : op_columns),
          is_transposed(transposed) {}
    double at(std::int64_t i, std::int64_t j) const {
        auto const index = is_transposed ? j * columns + i : i * columns + j;
        return static_cast<double>(static_cast<float>(values[static_cast<std::size_t>(index)]));
    }
};

template <class T, class B>
void check_gemm(Bench<B>& bench, std::int64_t m, std::int64_t n, std::int64_t k, GemmOptions options) {
    Factor<T> const a(m, k, options.is_a_transposed, 1);
    Factor<T> const b(k, n, options.is_b_transposed, 2);
    auto const old = numbers(m * n, 3);
    auto device_a = bench.send(a.values);
    auto device_b = bench.send(b.values);
    auto device_out = bench.send(old);
    TensorView<T const, 2, B> const view_a = device_a.matrix(a.rows, a.columns);
    TensorView<T const, 2, B> const view_b = device_b.matrix(b.rows, b.columns);
    REQUIRE(B::template gemm<T>(view_a, view_b, device_out.matrix(m, n), options, bench.stream()));
    auto const out = bench.fetch(device_out);
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0.0;
            double magnitude = 0.0;
            auto const at = static_cast<std::size_t>(i * n + j);
            if (options.accumulates) sum = magnitude = static_cast<double>(old[at]), magnitude = std::abs(magnitude);
            for (std::int64_t l = 0; l < k; ++l) {
                sum += a.at(i, l) * b.at(l, j);
                magnitude += std::abs(a.at(i, l) * b.at(l, j));
            }
            // k products and as many additions, each rounded once, in any order.
            auto const bound = static_cast<double>(k + 1) * 0x1p-24 * magnitude;
            REQUIRE(std::abs(static_cast<double>(out[at]) - sum) <= bound);
        }
    }
}

}  // namespace

TEST_CASE_TEMPLATE("A back end copies to the device, within it and back", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto const values = numbers(1000, 7);
    auto const first = bench->send(values);
    auto second = bench->send(std::vector<float>(1000, 0.0F));
    REQUIRE(B::template copy<float>(first.view(), second.view(), bench->stream()));
    CHECK(bench->fetch(second) == values);
    auto const wrong = B::template copy<float>(first.view().part(0, 3), second.view(), bench->stream());
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code() == ErrorCode::shape_mismatch);
}

TEST_CASE_TEMPLATE("A back end's memory is aligned, and its count and peak follow what is held", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto& context = bench->context();
    {
        auto const one = Buffer<float, B>::allocate(context, 100);
        REQUIRE(one);
        CHECK(reinterpret_cast<std::uintptr_t>(one->data()) % B::alignment == 0);
        CHECK(context.memory().current() == allocated_bytes<B>(Bytes{400}));
        auto const none = Buffer<double, B>::allocate(context, 0);
        REQUIRE(none);
        CHECK(none->data() == nullptr);
    }
    CHECK(context.memory().current() == Bytes{0});
    CHECK(context.memory().peak() == allocated_bytes<B>(Bytes{400}));
}

TEST_CASE_TEMPLATE("An event that was never recorded is reached; one after work is reached with it", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    typename B::Event event;
    CHECK(event.is_reached());
    CHECK(event.synchronize(Deadline::after(1s)));
    event.block(bench->stream(), 1s);
    auto buffer = bench->send(numbers(100, 1));
    auto other = bench->send(numbers(100, 2));
    REQUIRE(B::template copy<float>(TensorView<float const, 1, B>(buffer.view()), other.view(), bench->stream()));
    event.record(bench->stream());
    auto const same = event;
    REQUIRE(event.synchronize(Deadline::after(10s)));
    CHECK(event.is_reached());
    CHECK(same.is_reached());
    event.record(bench->stream());
    CHECK(event.synchronize(Deadline::after(10s)));
}

// What follows runs kernels, whose threads the emulator makes of fibers.
TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("A stream that waits for another's event goes on after its work", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    if constexpr (std::is_same_v<B, TestDevice>) {
        // Streams of HIP on the CPU may take turns only when each has nothing left to do.
        if (!TestDevice::co_resident_blocks) return;
    }
    auto second = bench->context().make_stream();
    for (int turn = 0; turn < 10; ++turn) {
        auto buffer = bench->send(std::vector<float>(5000, 0.0F));
        auto copied = bench->send(std::vector<float>(5000, 0.0F));
        B::launch(5000, AddIndex{buffer.data()}, bench->stream(), 64);
        typename B::Event event;
        event.record(bench->stream());
        event.block(second, 10s);
        REQUIRE(B::template copy<float>(TensorView<float const, 1, B>(buffer.view()), copied.view(), second));
        REQUIRE(second.synchronize(Deadline::after(30s)));
        auto const values = bench->fetch(copied);
        for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == static_cast<float>(i));
    }
}

TEST_CASE_TEMPLATE("launch runs the body once for every index, whatever the grain", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (std::int64_t const count : {0, 1, 255, 1000}) {
        for (auto const grain : std::initializer_list<std::int64_t>{0, 1, 7, 5000, INT64_MAX}) {
            auto const start = numbers(count, 5);
            auto buffer = bench->send(start);
            B::launch(count, AddIndex{buffer.data()}, bench->stream(), grain);
            auto const values = bench->fetch(buffer);
            for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(values[i] == start[i] + static_cast<float>(i));
        }
    }
}

TEST_CASE_TEMPLATE("gemm is within the rounding of its sums, transposed or not, replacing or adding", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (int which = 0; which < 8; ++which) {
        GemmOptions const options{(which & 1) != 0, (which & 2) != 0, (which & 4) != 0};
        check_gemm<float>(*bench, 5, 7, 33, options);
    }
    check_gemm<float>(*bench, 66, 65, 17, {});
    check_gemm<float>(*bench, 1, 1, 1, {.is_a_transposed = true, .is_b_transposed = true});
    check_gemm<Bfloat16>(*bench, 9, 17, 24, {.is_b_transposed = true});
    check_gemm<Float16>(*bench, 9, 17, 24, {.is_a_transposed = true});
}

TEST_CASE_TEMPLATE("gemm refuses to round factors, which the host alone does", B, SHARDWISE_TEST_BACKENDS) {
    if constexpr (std::is_same_v<B, Host>) return;
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto const factor = bench->send(std::vector<float>{1});
    auto out = bench->send(std::vector<float>{5});
    TensorView<float const, 2, B> const view(factor.data(), {1, 1});
    auto const made = B::template gemm<float>(view, view, out.matrix(1, 1), {.rounds_to_bf16 = true}, bench->stream());
    REQUIRE_FALSE(made);
    CHECK(made.error().message() == "gemm: rounds_to_bf16: is of Host::gemm alone; give it factors of bf16");
    CHECK(bench->fetch(out) == std::vector<float>{5});
}

TEST_CASE_TEMPLATE("gemm takes a view of one row whatever distance to the next it says", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto const a = bench->send(std::vector<float>{1, 2, 3});
    auto const b = bench->send(std::vector<float>{1, 10, 100});
    for (std::int64_t const distance : {0, 1, -3, 1000}) {
        TensorView<float const, 2, B> const row(a.data(), {1, 3}, distance);
        TensorView<float const, 2, B> const other(b.data(), {1, 3}, distance);
        auto dot = bench->send(std::vector<float>{5});
        TensorView<float, 2, B> const sum(dot.data(), {1, 1}, distance);
        REQUIRE(B::template gemm<float>(row, other, sum, {.is_b_transposed = true}, bench->stream()));
        auto outer = bench->send(std::vector<float>(9));
        auto const made = outer.matrix(3, 3);
        REQUIRE(B::template gemm<float>(row, other, made, {.is_a_transposed = true}, bench->stream()));
        CHECK(bench->fetch(dot) == std::vector<float>{321});
        CHECK(bench->fetch(outer) == std::vector<float>{1, 10, 100, 2, 20, 200, 3, 30, 300});
    }
}

TEST_CASE_TEMPLATE("gemm without an inner extent clears the output, or leaves it", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto out = bench->send(numbers(6, 1));
    auto const old = bench->fetch(out);
    TensorView<float const, 2, B> const a(out.data(), {2, 0});
    TensorView<float const, 2, B> const b(out.data(), {0, 3});
    REQUIRE(B::template gemm<float>(a, b, out.matrix(2, 3), {.accumulates = true}, bench->stream()));
    CHECK(bench->fetch(out) == old);
    REQUIRE(B::template gemm<float>(a, b, out.matrix(2, 3), {}, bench->stream()));
    CHECK(bench->fetch(out) == std::vector<float>(6, 0.0F));
}

TEST_CASE_TEMPLATE("gemm refuses shapes that do not fit", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto buffer = bench->send(numbers(12, 1));
    auto out = bench->send(numbers(12, 1));
    TensorView<float const, 2, B> const tall = buffer.matrix(4, 3);
    TensorView<float const, 2, B> const wide = buffer.matrix(3, 4);
    for (auto const& result : {B::template gemm<float>(tall, tall, out.matrix(4, 3), {}, bench->stream()),
                               B::template gemm<float>(wide, tall, out.matrix(3, 4), {}, bench->stream()),
                               B::template gemm<float>(wide, tall, out.matrix(4, 3), {}, bench->stream())}) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code() == ErrorCode::shape_mismatch);
    }
}

TEST_SUITE_END();

TEST_CASE_TEMPLATE("move_values: keeps what overlaps", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& places : {std::pair{0, 40}, {40, 0}, {3, 7}, {64, 5}, {9, 9}}) {
        auto const from = places.first;
        auto const to = places.second;
        CAPTURE(from);
        CAPTURE(to);
        auto wanted = numbers(100, 7);
        auto buffer = bench->send(wanted);
        for (std::int64_t const count : {0, 1, 30}) {
            std::copy_n(std::vector<float>(wanted.begin() + from, wanted.begin() + from + count).begin(), count,
                        wanted.begin() + to);
            REQUIRE(move_values<B>(buffer.data() + from, buffer.data() + to, count, bench->stream()));
        }
        CHECK(bench->fetch(buffer) == wanted);
    }
}
