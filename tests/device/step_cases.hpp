// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/store_rows.hpp>

#include "row_cases.hpp"
#include "test_step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr StepBounds bounds_of_steps{
    .tokens = 70, .sequences = 4, .wanted = 5, .groups = 2, .pages = 3, .page_rows = 16};

/// Sequences in all places of a page, the second with pages that it uses again, as layers with a window do.
TestStep some_step() {
    return TestStep({{0, 1, {Pages{2}, Pages{0}}},
                     {14, 21, {Pages{0, 5, 3}, Pages{1, 2, 1}}},
                     {31, 2, {Pages{4, 1, 6}, Pages{3, 4, 5}}, 17}},
                    {0, 21, 23});
}

template <class B>
std::vector<std::int32_t> fetch_numbers(Bench<B>& bench, TensorView<std::int32_t const, 1, B> from) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(from.elements()));
    TensorView<std::int32_t, 1, Host> const to(values.data(), {from.elements()});
    REQUIRE(B::template copy<std::int32_t>(from, to, bench.stream()));
    bench.wait();
    return values;
}

/// What a memory and its scales hold after something was stored.
template <class Cache>
struct Stored {
    std::vector<Cache> elements;
    std::vector<float> scales;
};

bool is_same_memory(std::vector<float> const& a, std::vector<float> const& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}
template <class T>
bool is_same_memory(std::vector<T> const& a, std::vector<T> const& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](T x, T y) {
        return static_cast<float>(x) == static_cast<float>(y) ||
               (std::isnan(static_cast<float>(x)) && std::isnan(static_cast<float>(y)));
    });
}

/// The definition: each sequence by the host's call for one.
template <class Cache>
Stored<Cache> stored_one_by_one(TestRows<float> const& in, TestStep const& step, std::size_t group,
                                Stored<Cache> before, std::int64_t memory_rows, std::int64_t heads) {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    TensorView<Cache, 2, Host> const memory(before.elements.data(), {memory_rows, in.width});
    TensorView<float, 2, Host> const scales(before.scales.data(), {memory_rows, heads});
    TensorView<float const, 2, Host> const rows(in.values.data() + in.shift, {in.rows, in.width}, in.stride);
    std::int64_t first = 0;
    for (auto const& sequence : step.sequences) {
        CachedRows<Cache, Host> const cache(memory, sequence.pages[group], 16, sequence.past + sequence.rows, scales);
        REQUIRE(store_rows<Cache>(rows.rows(first, sequence.rows), memory, cache, sequence.past, stream, scales));
        first += sequence.rows;
    }
    return before;
}

template <class Cache, class B>
void check_store_step(Bench<B>& bench, std::int64_t heads, std::int64_t head_width, std::int64_t stride,
                      std::int64_t shift, float size = 1.0F) {
    CAPTURE(heads);
    CAPTURE(head_width);
    CAPTURE(size);
    constexpr std::int64_t memory_rows = 7 * 16;
    auto const step = some_step();
    auto const width = heads * head_width;
    auto table = StepTable<B>::create(bench.context(), bounds_of_steps);
    REQUIRE(table);
    REQUIRE(table->write(step.input(), bench.stream()));
    // Two rows more than the step has, as a bucket of a graph would: they are left alone.
    TestRows<float> in(static_cast<std::int64_t>(step.ids.size()) + 2, width, stride, shift, 401, size);
    in.set(3, 0, std::nanf(""));
    in.set(5, width - 1, std::numeric_limits<float>::infinity());
    for (std::int64_t i = 0; i < width; ++i) in.set(7, i, i % 2 == 0 ? 0.0F : -0.0F);
    // Halves of a step, which round to even numbers.
    for (std::int64_t i = 0; i < width; ++i)
        in.set(9, i, i % head_width == 0 ? 127.0F : static_cast<float>(i % 9) - 3.5F);
    Stored<Cache> const before{std::vector<Cache>(static_cast<std::size_t>(memory_rows * width), Cache(3)),
                               std::vector<float>(static_cast<std::size_t>(memory_rows * heads), 3.0F)};
    auto rows = bench.send(in.values);
    for (std::size_t group = 0; group < 2; ++group) {
        auto const expected = stored_one_by_one(in, step, group, before, memory_rows, heads);
        auto memory = bench.send(before.elements);
        auto scales = bench.send(before.scales);
        REQUIRE(store_rows<Cache>(TensorView<float const, 2, B>(in.view(rows)), memory.matrix(memory_rows, width),
                                  *table, static_cast<std::int64_t>(group), bench.stream(),
                                  scales.matrix(memory_rows, heads)));
        CHECK(is_same_memory(bench.fetch(memory), expected.elements));
        CHECK(is_same_memory(bench.fetch(scales), expected.scales));
    }
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("StepTable: what is written is what kernels read, step after step, and rows beyond a step are inert",
                   B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto table = StepTable<B>::create(bench->context(), bounds_of_steps);
    REQUIRE(table);
    CHECK(table->bytes() == *step_table_bytes(bounds_of_steps));
    auto const& layout = table->layout();
    // The larger step first: nothing of it may be left.
    auto const large = some_step();
    // The last page has only rows of the source.
    TestStep const small({{20, 3, {Pages{1, 2, 0}, Pages{3, 1, 2}}, 33}}, {2});
    for (auto const* const step : {&large, &small, &large, &large, &small}) {
        CAPTURE(step->ids.size());
        auto const tokens = static_cast<std::int64_t>(step->ids.size());
        REQUIRE(table->write(step->input(8), bench->stream()));
        bench->wait();
        CHECK(table->tokens() == tokens);
        CHECK(table->sequences() == static_cast<std::int64_t>(step->sequences.size()));
        CHECK(fetch_numbers<B>(*bench, table->ids()) == step->ids);
        CHECK(fetch_numbers<B>(*bench, table->wanted()) == step->wanted);
        auto const numbers = fetch_numbers<B>(*bench, {table->data(), {layout.size()}});
        auto const at = [&](std::int64_t part, std::int64_t i) { return numbers[static_cast<std::size_t>(part + i)]; };
        CHECK(at(0, 0) == tokens);
        CHECK(at(0, 1) == table->sequences());
        CHECK(at(0, 2) == static_cast<std::int32_t>(step->wanted.size()));
        std::vector<std::int32_t> positions;
        std::int64_t row = 0;
        for (std::int64_t i = 0; i < table->sequences(); ++i) {
            auto const& sequence = step->sequences[static_cast<std::size_t>(i)];
            CHECK(at(layout.first, i) == row);
            CHECK(at(layout.rows, i) == sequence.rows);
            CHECK(at(layout.past, i) == sequence.past);
            CHECK(at(layout.length, i) == sequence.past + sequence.rows);
            CHECK(at(layout.source, i) == sequence.source);
            CHECK(at(layout.slot, i) == 5 - i);
            auto position = static_cast<std::int32_t>(sequence.past);
            for (std::int64_t k = 0; k < sequence.rows; ++k, ++row) {
                CHECK(at(layout.sequence, row) == i);
                // The id 8 takes no position.
                positions.push_back(at(layout.ids, row) == 8 ? -1 : position++);
            }
            for (std::int64_t group = 0; group < 2; ++group) {
                auto const& pages = sequence.pages[static_cast<std::size_t>(group)];
                for (std::size_t page = 0; page < pages.size(); ++page)
                    CHECK(at(layout.lists, (i * 2 + group) * 3 + static_cast<std::int64_t>(page)) == pages[page]);
            }
        }
        CHECK(fetch_numbers<B>(*bench, table->positions()) == positions);
        for (auto beyond = tokens; beyond < bounds_of_steps.tokens; ++beyond) {
            CHECK(at(layout.ids, beyond) == -1);
            CHECK(at(layout.sequence, beyond) == -1);
        }
        for (auto beyond = static_cast<std::int64_t>(step->wanted.size()); beyond < bounds_of_steps.wanted; ++beyond)
            CHECK(at(layout.wanted, beyond) == -1);
    }
    CHECK(table->least_pages(0) == 3);
    CHECK(table->least_pages(1) == 4);
}

TEST_CASE_TEMPLATE("StepTable: a step of single tokens shows inert rows beyond its own where it is told to", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = testing::open_bench<B>();
    if (!bench) return;
    auto& stream = bench->stream();
    auto table = StepTable<B>::create(bench->context(), {.tokens = 6, .sequences = 4, .wanted = 4});
    REQUIRE(table);
    std::int32_t const ids[] = {7, 8, 9};
    std::int32_t const wanted[] = {0, 1, 2};
    StepSequence const sequences[] = {{.past = 1}, {.past = 2}, {.past = 3}};
    StepInput const step{.ids = ids, .sequences = sequences, .wanted = wanted};
    for (std::int64_t const rows : {2, 5}) {
        auto const refused = table->write(step, stream, rows);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message() == "step table: rows: are not those of a step's sequences and some more (got " +
                                               std::to_string(rows) + ", expected 3 to 4)");
    }
    StepSequence const one[] = {{.past = 1, .rows = 3}};
    CHECK_FALSE(table->write({.ids = ids, .sequences = one, .wanted = std::span(wanted).first(1)}, stream, 4));
    REQUIRE(table->write(step, stream, 4));
    CHECK(table->tokens() == 4);
    CHECK(table->sequences() == 4);
    CHECK(table->wanted().elements() == 4);
    auto const out = bench->send(std::vector<float>(8, -1.0F));
    auto const rows = bench->send(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
    TensorView<float const, 2, B> const from(rows.data(), {4, 2});
    TensorView<float, 2, B> const to(const_cast<float*>(out.data()), {4, 2});
    REQUIRE(take_rows<float>(table->wanted(), from, to, stream));
    CHECK(bench->fetch(out) == std::vector<float>{0, 1, 2, 3, 4, 5, 0, 0});
    REQUIRE(table->write(step, stream));
    CHECK(table->tokens() == 3);
}

TEST_CASE_TEMPLATE("StepTable: steps that are written one after another reach the kernels between them", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto table = StepTable<B>::create(bench->context(), {.tokens = 4, .sequences = 1, .wanted = 1});
    REQUIRE(table);
    std::vector<float> tables(64 * 4);
    for (std::size_t i = 0; i < tables.size(); ++i) tables[i] = static_cast<float>(i / 4);
    auto const rows = bench->send(tables);
    auto out = bench->send(std::vector<float>(20 * 4));
    for (std::int32_t step = 0; step < 20; ++step) {
        // A host's table is read where it is written.
        if (std::is_same_v<B, Host>) bench->wait();
        std::vector<std::int32_t> const id{step + 30};
        StepSequence const sequence{.past = step, .rows = 1};
        REQUIRE(table->write({.ids = id, .sequences = {&sequence, 1}}, bench->stream()));
        REQUIRE(take_rows<float>(table->ids(), TensorView<float const, 2, B>(rows.data(), {64, 4}),
                                 TensorView<float, 2, B>(out.data() + step * 4, {1, 4}), bench->stream()));
    }
    auto const made = bench->fetch(out);
    for (std::size_t i = 0; i < made.size(); ++i) CHECK(made[i] == static_cast<float>(i / 4 + 30));
}

TEST_CASE_TEMPLATE("StepTable refuses bounds and steps that it has no place for, and names them", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto const refused = [](auto const& result, std::string const& place) {
        REQUIRE_FALSE(result);
        CHECK(result.error().code() == ErrorCode::invalid_argument);
        CHECK(result.error().place() == place);
    };
    auto const create = [&](auto const& change) {
        auto bounds = bounds_of_steps;
        change(bounds);
        return StepTable<B>::create(bench->context(), bounds);
    };
    refused(create([](StepBounds& bounds) { bounds.tokens = 0; }), "tokens");
    refused(create([](StepBounds& bounds) { bounds.sequences = std::int64_t{1} << 31U; }), "sequences");
    refused(create([](StepBounds& bounds) { bounds.wanted = -1; }), "wanted");
    refused(create([](StepBounds& bounds) { bounds.groups = -1; }), "groups");
    refused(create([](StepBounds& bounds) { bounds.pages = 0; }), "pages");
    refused(create([](StepBounds& bounds) { bounds.page_rows = 24; }), "page_rows");
    auto const overflow = create(
        [](StepBounds& bounds) { bounds.sequences = bounds.groups = bounds.pages = (std::int64_t{1} << 31U) - 1; });
    REQUIRE_FALSE(overflow);
    CHECK(overflow.error().code() == ErrorCode::size_overflow);

    auto table = StepTable<B>::create(bench->context(), bounds_of_steps);
    REQUIRE(table);
    auto const write = [&](TestSequence const& sequence, std::vector<std::int32_t> const& wanted) {
        return table->write(TestStep({sequence}, wanted).input(), bench->stream());
    };
    REQUIRE(write({0, 2, {Pages{0}, Pages{0}}}, {1}));
    refused(write({0, 71, {Pages{0, 1, 2}, Pages{0, 1, 2}}}, {}), "ids");
    refused(write({-1, 2, {Pages{0}, Pages{0}}}, {}), "past");
    refused(write({0, 2, {Pages{0}, Pages{0}}, -1}, {}), "source");
    refused(write({0, 2, {Pages{0}, Pages{0}}, 17}, {}), "pages");
    refused(write({15, 2, {Pages{0}, Pages{0, 1}}}, {}), "pages");
    refused(write({15, 2, {Pages{0, 1}, Pages{0}}}, {}), "pages");
    refused(write({48, 1, {Pages{0, 1, 2, 3}, Pages{0, 1, 2, 3}}}, {}), "pages");
    refused(write({0, 2, {Pages{-1}, Pages{0}}}, {}), "pages");
    refused(write({0, 2, {Pages{0}, Pages{0}}}, {2}), "wanted");
    refused(write({0, 2, {Pages{0}, Pages{0}}}, {-1}), "wanted");
    refused(write({0, 2, {Pages{0}, Pages{0}}}, {0, 0, 0, 0, 0, 0}), "wanted");
    TestSequence const one{0, 1, {Pages{0}, Pages{0}}};
    TestStep const many({one, one, one, one, one}, {});
    refused(table->write(many.input(), bench->stream()), "sequences");
    TestStep step({one}, {});
    step.ids.push_back(1);
    refused(table->write(step.input(), bench->stream()), "ids");
    step.shown[0].pages = step.shown[0].pages.first(1);
    step.ids.pop_back();
    refused(table->write(step.input(), bench->stream()), "pages");
    for (std::int64_t const slot : {std::int64_t{-1}, std::int64_t{1} << 31U}) {
        step.shown[0].slot = slot;
        refused(table->write(step.input(), bench->stream()), "slot");
    }
    step.shown[0].rows = 0;
    refused(table->write(step.input(), bench->stream()), "rows");
    // What was refused changed nothing.
    CHECK(table->tokens() == 2);
}

TEST_CASE_TEMPLATE("store_rows over a step table has the bits of a host's call for each sequence", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& [heads, head_width, gap, shift] :
         {std::array<std::int64_t, 4>{2, 64, 0, 0}, {3, 24, 8, 0}, {1, 5, 0, 0}, {2, 8, 1, 0}, {2, 8, 0, 1}}) {
        auto const stride = heads * head_width + gap;
        check_store_step<float>(*bench, heads, head_width, stride, shift);
        check_store_step<Bfloat16>(*bench, heads, head_width, stride, shift);
        check_store_step<std::int8_t>(*bench, heads, head_width, stride, shift);
    }
    for (float const size : {1e30F, 3.8e-37F, 1e-38F, 1e-40F})
        check_store_step<std::int8_t>(*bench, 2, 40, 80, 0, size);
}

TEST_CASE_TEMPLATE("store_rows over a step table refuses what does not fit it before anything is stored", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    auto table = StepTable<B>::create(bench->context(), bounds_of_steps);
    REQUIRE(table);
    auto const step = some_step();
    REQUIRE(table->write(step.input(), bench->stream()));
    auto const tokens = static_cast<std::int64_t>(step.ids.size());
    auto rows = bench->send(std::vector<float>(100 * 4, 1.0F));
    auto memory = bench->send(std::vector<float>(112 * 4));
    auto bytes = bench->send(std::vector<std::int8_t>(112 * 4));
    auto scales = bench->send(std::vector<float>(112 * 3));
    auto const in = [&](std::int64_t count, std::int64_t width) {
        return TensorView<float const, 2, B>(rows.data(), {count, width});
    };
    auto& stream = bench->stream();
    REQUIRE(store_rows<float>(in(tokens, 4), memory.matrix(112, 4), *table, 1, stream));
    bench->wait();
    auto const refused = [](Result<> const& result, std::string const& reason) {
        REQUIRE_FALSE(result);
        CHECK(std::string(result.error().message()).find(reason) != std::string::npos);
    };
    refused(store_rows<float>(in(tokens, 4), memory.matrix(112, 4), *table, 2, stream), "has no lists of pages");
    refused(store_rows<float>(in(tokens - 1, 4), memory.matrix(112, 4), *table, 0, stream), "are fewer than the step");
    refused(store_rows<float>(in(71, 4), memory.matrix(112, 4), *table, 0, stream), "more than the table has");
    refused(store_rows<float>(in(tokens, 4), memory.matrix(96, 4), *table, 0, stream), "does not have");
    refused(store_rows<float>(in(tokens, 4), memory.matrix(112, 3), *table, 0, stream), "not as wide");
    refused(store_rows<std::int8_t>(in(tokens, 4), bytes.matrix(112, 4), *table, 0, stream), "need scales");
    refused(store_rows<std::int8_t>(in(tokens, 4), bytes.matrix(112, 4), *table, 0, stream, scales.matrix(112, 3)),
            "no multiple of the heads");
}

TEST_SUITE_END();
