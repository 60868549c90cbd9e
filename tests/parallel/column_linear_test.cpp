// SPDX-License-Identifier: Apache-2.0
#include <shardwise/parallel/tensor_parallel.hpp>

#include <doctest/doctest.h>

#include "parallel_cases.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t inputs = 40;
constexpr std::int64_t tokens = 3;

/// The columns of a layer that `make(group)` cuts, of all ranks one after another; `take` says which columns of the whole a
/// rank's are.
template <class Make>
Result<std::vector<Floats>> run_columns(std::int32_t ranks, Make const& make) {
    auto const in = random_floats(tokens * inputs, 1);
    return on_ranks(ranks, [&](Threads& comm, HostContext& context, HostStream& stream) -> Result<Floats> {
        TensorParallel<Host> const group(context, comm);
        auto const layer = make(group);
        if (!layer) return layer.error();
        Floats out(index(tokens * layer->outputs()));
        auto const done = layer->forward(matrix(in, tokens, inputs), matrix(out, tokens, layer->outputs()), stream);
        if (!done) return done.error();
        if (auto const finished = finish(stream); !finished) return finished.error();
        return out;
    });
}

/// Columns of the whole result, as a rank has them.
Floats columns_of(Floats const& whole, std::int64_t width, std::vector<UnitRange> const& ranges) {
    Floats out;
    for (std::int64_t row = 0; row < tokens; ++row) {
        for (auto const& range : ranges)
            out.insert(out.end(), whole.begin() + row * width + range.begin, whole.begin() + row * width + range.end);
    }
    return out;
}

}  // namespace

TEST_CASE("column_linear: equals float64, and each output has the bits that one rank alone gives it") {
    for (std::int64_t const outputs : {1, 13, 64}) {
        auto const values = random_floats(outputs * inputs, 2);
        auto const bias = random_floats(outputs, 3);
        auto const weight = f32_source(values, outputs, inputs);
        auto const make = [&](auto const& group) { return group.column_linear(weight, vector(bias)); };
        auto const alone = run_columns(1, make);
        REQUIRE(alone);
        auto const exact =
            exact_linear(random_floats(tokens * inputs, 1), widened(values), tokens, outputs, inputs, bias);
        CHECK(exact.wrong(alone->front()) == 0);
        for (std::int32_t const ranks : {2, 3, 4, 8}) {
            CAPTURE(ranks);
            auto const made = run_columns(ranks, make);
            REQUIRE(made);
            for (std::int32_t rank = 0; rank < ranks; ++rank) {
                auto const expected = columns_of(alone->front(), outputs, {split_units(outputs, ranks, rank)});
                CHECK(is_bitwise_equal((*made)[static_cast<std::size_t>(rank)], expected));
            }
        }
    }
}

TEST_CASE("packed_qkv: a rank makes its query heads, then the key and the value heads that they read") {
    constexpr PackedQkv packed{.heads = 9, .kv_heads = 3, .key_dim = 4, .value_dim = 2};
    constexpr std::int64_t outputs = 9 * 4 + 3 * (4 + 2);
    auto const values = random_floats(outputs * inputs, 4);
    auto const weight = f32_source(values, outputs, inputs);
    auto const bias = random_floats(outputs, 5);
    auto const alone =
        run_columns(1, [&](auto const& group) { return group.column_linear(weight, vector(bias)); })->front();
    for (std::int32_t const ranks : {1, 2, 4, 9}) {
        auto const made = run_columns(ranks, [&](auto const& group) {
            return group.packed_qkv(weight, packed, head_pieces(9, 2), vector(bias));
        });
        REQUIRE(made);
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            auto const query = split_units(9, ranks, rank);
            auto const kv = split_kv_heads(9, 3, ranks, rank);
            auto const expected = columns_of(alone, outputs,
                                             {{query.begin * 4, query.end * 4},
                                              {36 + kv.begin * 4, 36 + kv.end * 4},
                                              {48 + kv.begin * 2, 48 + kv.end * 2}});
            CAPTURE(ranks);
            CAPTURE(rank);
            CHECK(is_bitwise_equal((*made)[static_cast<std::size_t>(rank)], expected));
        }
    }
}

TEST_CASE("packed_gate_up: a rank makes its share of the gate, then the same share of up") {
    constexpr std::int64_t width = 21;
    auto const values = random_floats(2 * width * inputs, 6);
    auto const weight = f32_source(values, 2 * width, inputs);
    auto const alone = run_columns(1, [&](auto const& group) { return group.column_linear(weight); })->front();
    for (std::int32_t const ranks : {1, 2, 4, 30}) {
        auto const made =
            run_columns(ranks, [&](auto const& group) { return group.packed_gate_up(weight, block_pieces(width)); });
        REQUIRE(made);
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            auto const own = split_units(width, ranks, rank);
            auto const expected = columns_of(alone, 2 * width, {own, {width + own.begin, width + own.end}});
            CHECK(is_bitwise_equal((*made)[static_cast<std::size_t>(rank)], expected));
        }
    }
}

TEST_CASE("column_linear: inputs and outputs of another shape are refused") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const values = random_floats(4 * inputs, 7);
    auto const weight = f32_source(values, 4, inputs);
    TensorParallel<Host> const group(context, TensorPlace{2, 1});
    auto const layer = group.column_linear(weight);
    REQUIRE(layer);
    CHECK(layer->outputs() == 2);
    Floats in(index(2 * inputs));
    Floats out(8);
    auto const call = [&](std::int64_t in_rows, std::int64_t columns, std::int64_t made) {
        return layer->forward(matrix(std::as_const(in), in_rows, columns), matrix(out, 2, made), stream);
    };
    CHECK(call(2, inputs, 2));
    CHECK(call(1, inputs, 2).error().code() == ErrorCode::shape_mismatch);
    CHECK(call(2, inputs - 1, 2).error().code() == ErrorCode::shape_mismatch);
    CHECK(call(2, inputs, 3).error().code() == ErrorCode::shape_mismatch);
    UnitRange const outside[] = {{2, 5}};
    CHECK(ColumnLinear<Host>::create(context, weight, outside).error().code() == ErrorCode::shape_mismatch);
}
