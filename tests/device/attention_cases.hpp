// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention_problems.hpp"
#include "attention_tensors.hpp"
#include "pair_sample.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

#if defined(SHARDWISE_HAS_CUDA) || defined(SHARDWISE_HAS_HIP)
template <class B>
inline constexpr bool has_own_processor = true;
#else
template <class B>
inline constexpr bool has_own_processor = std::is_same_v<B, Host>;
#endif

template <class Cache, class B>
void check_attention(Bench<B>& bench, AttentionProblem const& problem) {
    CAPTURE(problem.name);
    CAPTURE(sizeof(Cache));
    AttentionTensors<Cache> const tensors(problem, 1U);
    auto const out = tensors.run(bench);
    tensors.check(out);
#if defined(SHARDWISE_TEST_HOST)
    if (std::is_same_v<B, Host>) CHECK(out == attended_one_by_one(tensors));
#endif
    // The same bits from other pages, with little workspace or none, and whoever computes beside a sequence.
    CHECK(out == AttentionTensors<Cache>(problem, 2U).run(bench, 0.0));
    if (problem.length(0) > 2048) CHECK(out == tensors.run(bench, 0.3));
    std::int64_t row = 0;
    for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
        auto const alone = tensors.run(bench, 1.0, i);
        for (auto const end = row + problem.sequences[i].rows; row < end; ++row) {
            auto const first = problem.shift + row * tensors.out_stride;
            auto const count = tensors.out_stride - problem.gap;
            CHECK(std::equal(out.begin() + first, out.begin() + first + count, alone.begin() + first));
        }
    }
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("step_attention is within its bound of float64, whatever the pages and with or without a workspace",
                   B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    std::size_t number = 0;
    for (auto const& problem : attention_problems()) {
        // An emulator takes its time: there the elements come in turn, in a sample, of the host too, one for each problem.
        bool const is_sample = testing::takes_samples();
        auto const turn = is_sample ? number++ % 3 : has_own_processor<B> ? 2 : number++ % 2;
        if (!is_sample || turn == 2) check_attention<Bfloat16>(*bench, problem);
        if (is_sample ? turn == 1 : turn != 0) check_attention<float>(*bench, problem);
        if (is_sample ? turn == 0 : turn != 1) check_attention<std::int8_t>(*bench, problem);
    }
}

TEST_CASE_TEMPLATE("step_attention: a head has the same bits with few heads of its group beside it and with many", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    AttentionTensors<Bfloat16> const tensors({"", attention_of(8, 1, 64, 64), {{270, 1}, {3, 6}}}, 1U);
    auto const all = tensors.run(*bench);
    for (std::int64_t const heads : {1, 3, 5}) {
        CAPTURE(heads);
        auto const some = tensors.run(*bench, 1.0, {}, heads);
        for (std::int64_t row = 0; row < 7; ++row) {
            auto const first = row * tensors.out_stride;
            CHECK(std::equal(some.begin() + first, some.begin() + first + heads * 64, all.begin() + first));
        }
    }
}

TEST_CASE_TEMPLATE("step_attention: a row takes what is no number from what it sees, and nothing else", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    // Key 3 of the prompt, and the last of the single token's.
    AttentionProblem const windowed{"", attention_of(2, 1, 64, 64, 4), {{0, 12}, {8, 1}}};
    AttentionProblem chunked{"", attention_of(2, 1, 64, 64), windowed.sequences};
    chunked.options.shape.chunk = 4;
    for (int const kind : {0, 1, 2, 3}) {
        auto const& problem = kind / 2 == 0 ? windowed : chunked;
        bool const is_value = kind % 2 == 1;
        CAPTURE(problem.options.shape.chunk);
        // The last query of a window that has the key is three after it; of a chunk it is the key's own.
        auto const last = problem.options.shape.chunk > 0 ? 3 : 6;
        for (float const value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
            // A score of minus infinity is one.
            if (!is_value && std::isinf(value)) continue;
            AttentionTensors<float> tensors(problem, 1U);
            auto& rows = is_value ? *tensors.values : *tensors.keys;
            for (auto const place : {tensors.place(0, 3), tensors.place(1, 8), tensors.place(1, 3)})
                rows.elements[static_cast<std::size_t>(place * rows.stride + 5)] = value;
            auto const out = tensors.run(*bench);
            for (std::int64_t row = 0; row < 13; ++row) {
                bool const is_touched = (row >= 3 && row <= last) || row == 12;
                for (std::int64_t head = 0; head < 2; ++head) {
                    auto const at = static_cast<std::size_t>(row * tensors.out_stride + head * 64);
                    CAPTURE(row);
                    CHECK(std::isfinite(out[at + 5]) != is_touched);
                    if (is_value) CHECK(std::isfinite(out[at]));
                }
            }
        }
    }
}

TEST_CASE_TEMPLATE("step_attention refuses what does not fit its table before anything is computed", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto table = StepTable<B>::create(
        bench->context(), {.tokens = 4, .sequences = 2, .wanted = 1, .groups = 2, .pages = 2, .page_rows = 16});
    REQUIRE(table);
    TestStep const step({{14, 3, {Pages{2, 1}, Pages{0, 3}}}}, {});
    auto const memory = bench->send(std::vector<float>(64 * 8, 1.0F));
    auto const bytes = bench->send(std::vector<std::int8_t>(64 * 8));
    auto const vector = bench->send(std::vector<float>(8, 1.0F));
    auto out = bench->send(std::vector<float>(5 * 16, 77.0F));
    auto const in = [&](std::int64_t rows, std::int64_t width) {
        return TensorView<float const, 2, B>(memory.data(), {rows, width});
    };
    auto const options = attention_of(4, 2, 4, 4);
    auto& stream = bench->stream();
    auto const attend = [&](TensorView<float const, 2, B> q, StepRows<float, B> const& k, StepRows<float, B> const& v,
                            std::int64_t rows, AttentionOptions const& given, std::int64_t sinks = 0) {
        return step_attention<float>(q, k, v, out.matrix(rows, 16), *table, given, stream, {},
                                     TensorView<float const, 1, B>(vector.data(), {sinks}));
    };
    StepRows<float, B> const cache{in(64, 8), {}, 1};
    // A table without a step asks for nothing.
    REQUIRE(attend(in(4, 16), cache, cache, 4, options));
    REQUIRE(table->write(step.input(), stream));
    auto const refused = [](Result<> const& result, std::string const& reason) {
        REQUIRE_FALSE(result);
        INFO(std::string(result.error().message()));
        CHECK(std::string(result.error().message()).find(reason) != std::string::npos);
    };
    refused(attend(in(2, 16), cache, cache, 2, options), "fewer than the step's rows");
    refused(attend(in(5, 16), cache, cache, 5, options), "more than the table has");
    refused(attend(in(3, 12), cache, cache, 3, options), "queries are not as wide");
    refused(attend(in(3, 16), {in(64, 4), {}, 1}, cache, 3, options), "keys are not as wide");
    refused(attend(in(3, 16), cache, {in(64, 4), {}, 1}, 3, options), "values are not as wide");
    refused(attend(in(3, 16), cache, cache, 4, options), "a row per query");
    refused(attend(in(3, 16), {in(64, 8), {}, 0}, cache, 3, options), "not of one group");
    refused(attend(in(3, 16), {in(64, 8), {}, 2}, {in(64, 8), {}, 2}, 3, options), "has no lists of pages");
    refused(attend(in(3, 16), {in(48, 8), {}, 1}, {in(48, 8), {}, 1}, 3, options), "does not have");
    refused(attend(in(3, 16), {in(2, 8), {}, -1}, {in(2, 8), {}, -1}, 3, options), "fewer rows of keys or values");
    refused(attend(in(3, 16), cache, cache, 3, options, 3), "needs a sink");
    auto changed = options;
    changed.shape.kv_heads = 3;
    refused(attend(in(3, 16), cache, cache, 3, changed), "no multiple");
    changed = options;
    changed.scale = -1.0F;
    refused(attend(in(3, 16), cache, cache, 3, changed), "at least 0, and finite");
    changed = options;
    changed.shape.bias_reach = 2;
    refused(attend(in(3, 16), cache, cache, 3, changed), "a bias for each distance");
    changed = options;
    changed.shape.is_cross = true;
    auto const cross = [&](StepRows<float, B> const& rows) { return attend(in(3, 16), rows, rows, 3, changed); };
    refused(cross(cache), "sees all of a source");
    changed.shape.is_causal = false;
    refused(cross(cache), "and one has none");
    refused(cross({in(64, 8), {}, -1}), "the step's own rows");
    changed.shape.window = 2;
    refused(cross(cache), "sees all of a source");
    changed.shape.window = 0;
    changed.shape.chunk = 2;
    refused(cross(cache), "no chunks");
    changed.shape.chunk = 0;
    refused(step_attention<float>(in(3, 16), cache, cache, out.matrix(3, 16), *table, changed, stream, {}, {},
                                  TensorView<float const, 1, B>(vector.data(), {4})),
            "sees all of a source");
    StepRows<std::int8_t, B> const unscaled{{bytes.data(), {64, 8}}, {}, 1};
    refused(step_attention<std::int8_t>(in(3, 16), unscaled, unscaled, out.matrix(3, 16), *table, options, stream),
            "need a scale for each");
    if constexpr (!std::is_same_v<B, Host>) {
        auto const halves = bench->send(std::vector<Float16>(64 * 8, Float16(1.0F)));
        auto half_out = bench->send(std::vector<Float16>(3 * 16, Float16(77.0F)));
        TensorView<Float16 const, 2, B> const half_q(halves.data(), {3, 16});
        auto const attend_halves = [&](std::int64_t group) {
            StepRows<Float16, B> const rows{{halves.data(), {64, 8}}, {}, group};
            return step_attention<Float16>(half_q, rows, rows, half_out.matrix(3, 16), *table, options, stream);
        };
        refused(attend_halves(1), "no cache of a device holds fp16");
        for (auto const value : bench->fetch(half_out)) CHECK(static_cast<float>(value) == 77.0F);
        // Each query sees ones alone.
        REQUIRE(attend_halves(-1));
        for (auto const value : bench->fetch(half_out)) CHECK(static_cast<float>(value) == 1.0F);
    }
    for (auto const value : bench->fetch(out)) CHECK(value == 77.0F);
}

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
TEST_CASE("step_attention has the same bits in whatever order a device's threads go on") {
    auto const bench = open_bench<Fake>();
    for (auto const& problem : attention_problems()) {
        if (problem.name != "grouped heads of 64 in decode" && problem.name != "a window" &&
            problem.name != "odd heads")
            continue;
        CAPTURE(problem.name);
        AttentionTensors<Bfloat16> const tensors(problem, 1U);
        FakeMachine::get().orders.begin_again();
        CHECK_FALSE(tensors.run(*bench).empty());
        // It aborts where bits differ.
        CHECK(FakeMachine::get().orders.kernels() >= 1);
    }
}
#endif

TEST_SUITE_END();
