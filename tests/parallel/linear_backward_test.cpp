// SPDX-License-Identifier: Apache-2.0
#include <shardwise/parallel/linear_backward.hpp>

#include <doctest/doctest.h>

#include "parallel_cases.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t tokens = 5;
constexpr std::int64_t inputs = 13;
constexpr std::int64_t outputs = 11;

/// A matrix [columns, rows].
template <class T>
std::vector<T> transposed(std::vector<T> const& values, std::int64_t rows) {
    auto const columns = static_cast<std::int64_t>(values.size()) / rows;
    std::vector<T> out(values.size());
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column)
            out[index(column * rows + row)] = values[index(row * columns + column)];
    }
    return out;
}

Floats columns_of(Floats const& values, std::int64_t rows, UnitRange columns) {
    auto const width = static_cast<std::int64_t>(values.size()) / rows;
    Floats out;
    for (std::int64_t row = 0; row < rows; ++row)
        out.insert(out.end(), values.begin() + row * width + columns.begin, values.begin() + row * width + columns.end);
    return out;
}

void put_columns(Floats& values, std::int64_t rows, UnitRange columns, Floats const& part) {
    auto const width = static_cast<std::int64_t>(values.size()) / rows;
    for (std::int64_t row = 0; row < rows; ++row)
        std::copy_n(part.begin() + row * columns.size(), columns.size(), values.begin() + row * width + columns.begin);
}

struct Layer {
    Floats in = random_floats(tokens * inputs, 1);
    Floats weight = random_floats(outputs * inputs, 2);
    Floats gradient = random_floats(tokens * outputs, 3);

    /// in_gradient = gradient * weight; weight_gradient = gradient^T * in; bias_gradient = sums of gradient's columns.
    [[nodiscard]] Exact in_gradient() const {
        return exact_linear(gradient, widened(transposed(weight, outputs)), tokens, inputs, outputs);
    }
    [[nodiscard]] Exact weight_gradient() const {
        return exact_linear(transposed(gradient, tokens), widened(transposed(in, tokens)), outputs, inputs, tokens);
    }
    [[nodiscard]] Exact bias_gradient() const {
        return exact_linear(transposed(gradient, tokens), Doubles(index(tokens), 1.0), outputs, 1, tokens);
    }
};

/// What one rank makes: the input's gradient, then the weight's, then the bias's.
struct Gradients {
    Floats in;
    Floats weight;
    Floats bias;
};

}  // namespace

TEST_CASE("linear_backward: of column-parallel layers equals float64 once the ranks' input gradients are summed") {
    Layer const layer;
    for (std::int32_t const ranks : {1, 2, 3, 4, 8, 12}) {
        CAPTURE(ranks);
        std::vector<Gradients> made(static_cast<std::size_t>(ranks));
        auto const done = on_ranks(ranks, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
            auto const own = split_units(outputs, ranks, comm.rank());
            auto& mine = made[static_cast<std::size_t>(comm.rank())];
            mine = {Floats(index(tokens * inputs)), Floats(index(own.size() * inputs)), Floats(index(own.size()))};
            auto const rows = matrix(layer.weight, outputs, inputs).rows(own.begin, own.size());
            LinearGradients<Host> const linear{matrix(layer.in, tokens, inputs), rows,
                                               matrix(layer.gradient, tokens, outputs).columns(own.begin, own.size()),
                                               matrix(mine.weight, own.size(), inputs), vector(mine.bias)};
            auto const in_gradient = matrix(mine.in, tokens, inputs);
            if (auto const back = linear_backward(linear, in_gradient, false, stream); !back) return back.error();
            if (auto const summed = sum_gradient(in_gradient, comm, stream); !summed) return summed.error();
            if (auto const finished = finish(stream); !finished) return finished.error();
            return Floats();
        });
        REQUIRE(done);
        Floats weight;
        Floats bias;
        for (auto const& each : made) {
            CHECK(layer.in_gradient().wrong(each.in) == 0);
            weight.insert(weight.end(), each.weight.begin(), each.weight.end());
            bias.insert(bias.end(), each.bias.begin(), each.bias.end());
        }
        CHECK(layer.weight_gradient().wrong(weight) == 0);
        CHECK(layer.bias_gradient().wrong(bias) == 0);
    }
}

TEST_CASE("linear_backward: of row-parallel layers equals float64 without communication") {
    Layer const layer;
    for (std::int32_t const ranks : {1, 2, 3, 4, 8, 14}) {
        CAPTURE(ranks);
        Floats in(index(tokens * inputs));
        Floats weight(index(outputs * inputs));
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            HostContext context({.threads = 1});
            auto stream = context.make_stream();
            auto const own = split_units(inputs, ranks, rank);
            Gradients mine{Floats(index(tokens * own.size())), Floats(index(outputs * own.size())),
                           Floats(index(outputs))};
            auto const columns = columns_of(layer.weight, outputs, own);
            LinearGradients<Host> const linear{
                matrix(layer.in, tokens, inputs).columns(own.begin, own.size()), matrix(columns, outputs, own.size()),
                matrix(layer.gradient, tokens, outputs), matrix(mine.weight, outputs, own.size()), vector(mine.bias)};
            REQUIRE(linear_backward(linear, matrix(mine.in, tokens, own.size()), false, stream));
            REQUIRE(finish(stream));
            put_columns(in, tokens, own, mine.in);
            put_columns(weight, outputs, own, mine.weight);
            CHECK(layer.bias_gradient().wrong(mine.bias) == 0);
        }
        CHECK(layer.in_gradient().wrong(in) == 0);
        CHECK(layer.weight_gradient().wrong(weight) == 0);
    }
}

TEST_CASE("linear_backward: gradients of weights add up over calls, and inputs' where they are asked to") {
    Layer const layer;
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    Floats in(index(tokens * inputs), 7.0F);
    Floats weight(index(outputs * inputs));
    LinearGradients<Host> const linear{matrix(layer.in, tokens, inputs), matrix(layer.weight, outputs, inputs),
                                       matrix(layer.gradient, tokens, outputs), matrix(weight, outputs, inputs)};
    REQUIRE(linear_backward(linear, matrix(in, tokens, inputs), false, stream));
    REQUIRE(linear_backward(linear, matrix(in, tokens, inputs), true, stream));
    auto twice_in = layer.in_gradient();
    auto twice_weight = layer.weight_gradient();
    for (auto* each : {&twice_in, &twice_weight}) {
        for (auto& value : each->values) value *= 2.0;
        for (auto& tolerance : each->tolerance) tolerance *= 4.0;
    }
    CHECK(twice_in.wrong(in) == 0);
    CHECK(twice_weight.wrong(weight) == 0);
}

TEST_CASE("linear_backward: sequence parallelism gives each rank the sum of its tokens' gradients") {
    Layer const layer;
    for (std::int32_t const ranks : {1, 2, 3, 8}) {
        CAPTURE(ranks);
        auto const made = on_ranks(ranks, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<Floats> {
            auto const own = split_units(outputs, ranks, comm.rank());
            auto const share = split_units(tokens, ranks, comm.rank()).size();
            Floats weight(index(own.size() * inputs));
            Floats partial(index(tokens * inputs));
            Floats out(index(share * inputs));
            LinearGradients<Host> const linear{matrix(layer.in, tokens, inputs),
                                               matrix(layer.weight, outputs, inputs).rows(own.begin, own.size()),
                                               matrix(layer.gradient, tokens, outputs).columns(own.begin, own.size()),
                                               matrix(weight, own.size(), inputs)};
            if (auto const back = linear_backward(linear, matrix(partial, tokens, inputs), false, stream); !back)
                return back.error();
            auto const scattered = scatter_gradient<Host>(matrix(std::as_const(partial), tokens, inputs),
                                                          matrix(out, share, inputs), comm, stream);
            if (!scattered) return scattered.error();
            if (auto const finished = finish(stream); !finished) return finished.error();
            return out;
        });
        REQUIRE(made);
        Floats rows;
        for (auto const& each : *made) rows.insert(rows.end(), each.begin(), each.end());
        CHECK(layer.in_gradient().wrong(rows) == 0);
    }
}

TEST_CASE("linear_forward: weights that are trained as they lie give what held ones do, to rounding") {
    Layer const layer;
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    Floats out(index(tokens * outputs));
    REQUIRE(linear_forward<Host>(matrix(layer.in, tokens, inputs), matrix(layer.weight, outputs, inputs),
                                 matrix(out, tokens, outputs), stream));
    CHECK(exact_linear(layer.in, widened(layer.weight), tokens, outputs, inputs).wrong(out) == 0);
}

TEST_CASE("linear_backward: gradients of other shapes are refused") {
    Layer const layer;
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    Floats in(index(tokens * inputs));
    Floats weight(index(outputs * inputs));
    Floats bias(3);
    LinearGradients<Host> linear{matrix(layer.in, tokens, inputs), matrix(layer.weight, outputs, inputs),
                                 matrix(layer.gradient, tokens, outputs), matrix(weight, outputs, inputs),
                                 vector(bias)};
    CHECK(linear_backward(linear, matrix(in, tokens, inputs), false, stream).error().code() ==
          ErrorCode::shape_mismatch);
    linear.bias_gradient = {};
    CHECK(linear_backward(linear, matrix(in, tokens, inputs - 1), false, stream).error().code() ==
          ErrorCode::shape_mismatch);
    auto group = ThreadsGroup::create(1).value();
    auto comm = group.join(0).value();
    CHECK(sum_gradient(matrix(in, tokens, inputs).columns(0, 3), comm, stream).error().code() ==
          ErrorCode::shape_mismatch);
    CHECK(scatter_gradient<Host>(matrix(std::as_const(in), tokens, inputs), matrix(in, 2, inputs), comm, stream)
              .error()
              .code() == ErrorCode::shape_mismatch);
}
