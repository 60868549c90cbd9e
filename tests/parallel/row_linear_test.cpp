// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/parallel/row_linear.hpp>

#include <doctest/doctest.h>

#include "stored_weight.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

struct Case {
    InputPieces pieces;
    std::int64_t outputs;
    std::int64_t tokens;
};

/// Every rank's result of a layer over random values; `scattered`: each rank's rows, put one after another.
template <class Policy>
Result<std::vector<Floats>> run_layer(WeightSource const& weight, Case const& layer_case, std::int32_t ranks,
                                      bool is_scattered = false, StreamMode mode = StreamMode::immediate) {
    auto const in = random_floats(layer_case.tokens * weight.inputs, 11);
    auto const bias = random_floats(weight.outputs, 12);
    return on_ranks(
        ranks,
        [&](Threads& comm, HostContext& context, HostStream& stream) -> Result<Floats> {
            auto const layer =
                RowLinear<Host, Policy>::create(context, weight, layer_case.pieces, {ranks, comm.rank()}, vector(bias));
            if (!layer) return layer.error();
            auto const own = layer->own_inputs();
            auto const rows =
                is_scattered ? split_units(layer_case.tokens, ranks, comm.rank()).size() : layer_case.tokens;
            Floats out(index(rows * weight.outputs), -1.0F);
            Floats workspace(index(is_scattered ? layer->workspace_scattered(layer_case.tokens)
                                                : layer->workspace(layer_case.tokens)));
            // The rank's columns of a wider matrix: rows that lie apart.
            auto const columns = matrix(in, layer_case.tokens, weight.inputs).columns(own.begin, own.size());
            auto const result = matrix(out, rows, weight.outputs);
            auto const done = is_scattered ? layer->forward_scattered(columns, result, vector(workspace), comm, stream)
                                           : layer->forward(columns, result, vector(workspace), comm, stream);
            if (!done) return done.error();
            if (auto const finished = finish(stream); !finished) return finished.error();
            return out;
        },
        mode);
}

Exact exact_case(WeightSource const& weight, Case const& layer_case) {
    return exact_linear(random_floats(layer_case.tokens * weight.inputs, 11), decoded(weight), layer_case.tokens,
                        weight.outputs, weight.inputs, random_floats(weight.outputs, 12));
}

constexpr std::int64_t format_outputs = 18;
constexpr std::int64_t format_inputs = 768;
constexpr std::int64_t format_tokens = 2;

Result<std::vector<Floats>> run_format(WeightSource const& weight, IsaLevel isa, std::int32_t ranks,
                                       ProductActivations activations = ProductActivations::full) {
    auto const in = random_floats(format_tokens * format_inputs, 1);
    auto const pieces = Deterministic::cut(format_inputs, input_grain(weight.format, weight.group));
    std::vector<Floats> made(static_cast<std::size_t>(ranks));
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1, .isa = isa, .product_activations = activations});
        auto stream = context.make_stream();
        auto const layer = RowLinear<Host, Deterministic>::create(context, weight, pieces, {ranks, comm.rank()});
        if (!layer) return layer.error();
        auto const own = layer->own_inputs();
        auto& out = made[static_cast<std::size_t>(comm.rank())];
        out.resize(index(format_tokens * format_outputs));
        Floats workspace(index(layer->workspace(format_tokens)));
        auto const ran = layer->forward(matrix(in, format_tokens, format_inputs).columns(own.begin, own.size()),
                                        matrix(out, format_tokens, format_outputs), vector(workspace), comm, stream);
        if (!ran) return ran;
        return finish(stream);
    });
    if (!done) return done.error();
    return made;
}

}  // namespace

TEST_CASE_TEMPLATE("row_linear: equals float64 for even and uneven widths and more ranks than pieces", Policy, Fast,
                   Deterministic) {
    for (auto const& layer_case : {Case{Policy::cut(172, 1), 24, 3}, Case{head_pieces(9, 8), 20, 2},
                                   Case{Policy::cut(2, 1), 5, 4}, Case{Policy::cut(64, 32), 7, 1}}) {
        auto const values = random_floats(layer_case.outputs * layer_case.pieces.inputs, 10);
        auto const weight = f32_source(values, layer_case.outputs, layer_case.pieces.inputs);
        auto const exact = exact_case(weight, layer_case);
        for (std::int32_t const ranks : {1, 2, 3, 4, 8}) {
            CAPTURE(ranks);
            CAPTURE(layer_case.pieces.inputs);
            auto const made = run_layer<Policy>(weight, layer_case, ranks);
            REQUIRE(made);
            for (auto const& each : *made) {
                CHECK(exact.wrong(each) == 0);
                CHECK(is_bitwise_equal(each, made->front()));
            }
        }
    }
}

TEST_CASE("row_linear: deterministic sums have the same bits for any number of ranks, whole or scattered") {
    for (auto const& layer_case : {Case{Deterministic::cut(172, 1), 17, 5}, Case{head_pieces(9, 8), 20, 3},
                                   Case{Deterministic::cut(300, 1), 9, 2}, Case{head_pieces(5, 6), 3, 1}}) {
        auto const values = random_floats(layer_case.outputs * layer_case.pieces.inputs, 20);
        auto const weight = f32_source(values, layer_case.outputs, layer_case.pieces.inputs);
        auto const alone = run_layer<Deterministic>(weight, layer_case, 1);
        REQUIRE(alone);
        bool is_fast_equal = true;
        for (std::int32_t const ranks : {2, 3, 4, 8}) {
            CAPTURE(ranks);
            CAPTURE(layer_case.pieces.inputs);
            auto const made = run_layer<Deterministic>(weight, layer_case, ranks);
            REQUIRE(made);
            for (auto const& each : *made) CHECK(is_bitwise_equal(each, alone->front()));
            auto const scattered = run_layer<Deterministic>(weight, layer_case, ranks, true);
            REQUIRE(scattered);
            Floats rows;
            for (auto const& each : *scattered) rows.insert(rows.end(), each.begin(), each.end());
            CHECK(is_bitwise_equal(rows, alone->front()));
            is_fast_equal =
                is_fast_equal && is_bitwise_equal(run_layer<Fast>(weight, layer_case, ranks)->front(), alone->front());
        }
        // The negative control: sums that follow the ranks are other sums.
        if (layer_case.pieces.inputs > 100) CHECK_FALSE(is_fast_equal);
    }
}

TEST_CASE("row_linear: long sums over many ranks are made in parts, with the same bits") {
    // 70 rows of 240 outputs: more than one shot's 16 Ki elements.
    Case const layer_case{Deterministic::cut(48, 1), 240, 70};
    auto const values = random_floats(layer_case.outputs * 48, 25);
    auto const weight = f32_source(values, layer_case.outputs, 48);
    auto const alone = run_layer<Deterministic>(weight, layer_case, 1);
    REQUIRE(alone);
    for (std::int32_t const ranks : {2, 3, 4}) {
        CAPTURE(ranks);
        auto const made = run_layer<Deterministic>(weight, layer_case, ranks, false, StreamMode::queued);
        REQUIRE(made);
        for (auto const& each : *made) CHECK(is_bitwise_equal(each, alone->front()));
    }
}

TEST_CASE_TEMPLATE("row_linear: with residual and norm it has the bits of the three one after another", Policy, Fast,
                   Deterministic) {
    constexpr std::int64_t tokens = 3;
    constexpr std::int64_t outputs = 20;
    auto const values = random_floats(outputs * 96, 70);
    auto const weight = f32_source(values, outputs, 96);
    auto const bias = random_floats(outputs, 71);
    auto const in = random_floats(tokens * 96, 72);
    auto const norm_weight = random_floats(outputs, 73);
    RmsNorm<Host> const norm{vector(norm_weight), 1e-5F, 1.0F};
    for (std::int32_t const ranks : {1, 2, 3}) {
        CAPTURE(ranks);
        auto const run = [&](bool is_fused) {
            return on_ranks(ranks, [&](Threads& comm, HostContext& context, HostStream& stream) -> Result<Floats> {
                auto const layer = RowLinear<Host, Policy>::create(context, weight, Policy::cut(96, 1),
                                                                   {ranks, comm.rank()}, vector(bias));
                if (!layer) return layer.error();
                auto const own = layer->own_inputs();
                auto const columns = matrix(in, tokens, 96).columns(own.begin, own.size());
                auto residual = random_floats(tokens * outputs, 74);
                Floats out(residual.size());
                Floats workspace(index(layer->workspace_add_norm(tokens)));
                auto const rows = matrix(residual, tokens, outputs);
                auto const result = matrix(out, tokens, outputs);
                Result<> done;
                if (is_fused) {
                    done = layer->forward_add_norm(columns, rows, norm, result, vector(workspace), comm, stream);
                } else {
                    done = layer->forward(columns, result, vector(workspace), comm, stream);
                    detail::add<Host>(vector(residual), out.data(), stream);
                    TensorView<float const, 2, Host> const sum = rows;
                    if (done) done = rms_norm(sum, norm.weight, result, norm.epsilon, stream, norm.offset);
                }
                if (!done) return done.error();
                if (auto const finished = finish(stream); !finished) return finished.error();
                out.insert(out.end(), residual.begin(), residual.end());
                return out;
            });
        };
        auto const fused = run(true);
        auto const apart = run(false);
        REQUIRE(fused);
        REQUIRE(apart);
        for (std::size_t rank = 0; rank < fused->size(); ++rank)
            CHECK(is_bitwise_equal((*fused)[rank], (*apart)[rank]));
    }
}

TEST_CASE("row_linear: a row's bits do not depend on the rows beside it") {
    auto const values = random_floats(16 * 172, 30);
    auto const weight = f32_source(values, 16, 172);
    auto const alone = run_layer<Deterministic>(weight, {Deterministic::cut(172, 1), 16, 1}, 2);
    auto const among = run_layer<Deterministic>(weight, {Deterministic::cut(172, 1), 16, 7}, 3);
    REQUIRE(alone);
    REQUIRE(among);
    CHECK(is_bitwise_equal(alone->front(), Floats(among->front().begin(), among->front().begin() + 16)));
}

TEST_CASE_TEMPLATE("row_linear: each rank's rows of the sum equal float64", Policy, Fast, Deterministic) {
    Case const layer_case{Policy::cut(96, 1), 10, 7};
    auto const values = random_floats(10 * 96, 40);
    auto const weight = f32_source(values, 10, 96);
    auto const exact = exact_case(weight, layer_case);
    for (std::int32_t const ranks : {1, 2, 3, 8}) {
        CAPTURE(ranks);
        auto const made = run_layer<Policy>(weight, layer_case, ranks, true);
        REQUIRE(made);
        Floats rows;
        for (auto const& each : *made) rows.insert(rows.end(), each.begin(), each.end());
        CHECK(exact.wrong(rows) == 0);
    }
}

TEST_CASE_TEMPLATE("row_linear: a queued stream computes and communicates in order", Policy, Fast, Deterministic) {
    Case const layer_case{Policy::cut(96, 1), 10, 7};
    auto const values = random_floats(10 * 96, 40);
    auto const weight = f32_source(values, 10, 96);
    for (bool const is_scattered : {false, true}) {
        auto const at_once = run_layer<Policy>(weight, layer_case, 3, is_scattered);
        auto const queued = run_layer<Policy>(weight, layer_case, 3, is_scattered, StreamMode::queued);
        REQUIRE(at_once);
        REQUIRE(queued);
        for (std::size_t rank = 0; rank < 3; ++rank) CHECK(is_bitwise_equal((*at_once)[rank], (*queued)[rank]));
    }
}

TEST_CASE("row_linear: what cannot be cut or does not fit is refused with what is legal") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const values = random_floats(4 * 64, 50);
    auto const weight = f32_source(values, 4, 64);
    using Layer = RowLinear<Host, Fast>;
    CHECK(Layer::create(context, weight, block_pieces(64), {2, 2}).error().code() == ErrorCode::invalid_argument);
    CHECK(Layer::create(context, weight, block_pieces(63), {2, 0}).error().message().find("does not hold") !=
          std::string::npos);
    CHECK(Layer::create(context, f32_source({}, 4, 0), block_pieces(0), {1, 0})
              .error()
              .message()
              .find("without inputs") != std::string::npos);
    // A block of 32 that a cut between single columns would part.
    std::vector<std::byte> blocks(4 * 2 * 34);
    WeightSource const quantised{
        .format = WeightFormat::q8_0, .outputs = 4, .inputs = 64, .data = blocks, .scales = {}};
    auto const parted = Layer::create(context, quantised, block_pieces(64), {2, 0});
    CHECK(parted.error().message() ==
          "row_linear: pieces: part blocks of q8_0 (got 1, expected a multiple of 32); cut by pieces whose grain is a "
          "multiple of "
          "input_grain");
    auto const short_bias = random_floats(3, 51);
    CHECK(Layer::create(context, weight, block_pieces(64), {1, 0}, vector(short_bias)).error().code() ==
          ErrorCode::shape_mismatch);

    auto const layer = RowLinear<Host, Deterministic>::create(context, weight, leaf_pieces(64), {1, 0});
    REQUIRE(layer);
    auto group = ThreadsGroup::create(2).value();
    auto comm = group.join(0).value();
    auto single_group = ThreadsGroup::create(1).value();
    auto single = single_group.join(0).value();
    auto const in = random_floats(2 * 64, 52);
    Floats out(8);
    Floats workspace(index(layer->workspace(2)));
    auto const call = [&](std::int64_t columns, std::int64_t rows, std::int64_t room, auto& ranks) {
        return layer->forward(matrix(in, 2, columns), matrix(out, rows, 4),
                              TensorView<float, 1, Host>(workspace.data(), {room}), ranks, stream);
    };
    auto const enough = layer->workspace(2);
    CHECK(call(64, 2, enough, single));
    CHECK(call(63, 2, enough, single).error().code() == ErrorCode::shape_mismatch);
    CHECK(call(64, 1, enough, single).error().code() == ErrorCode::shape_mismatch);
    CHECK(call(64, 2, enough - 1, single).error().message().find("workspace") != std::string::npos);
    CHECK(call(64, 2, enough, comm).error().message().find("another group") != std::string::npos);
}

TEST_CASE("row_linear: a rank that reads only its own columns holds the same layer") {
    auto const values = random_floats(6 * 40, 60);
    auto const weight = f32_source(values, 6, 40);
    auto const pieces = leaf_pieces(40);
    auto const own = pieces.inputs_of_rank(3, 1);
    Floats part;
    for (std::int64_t row = 0; row < 6; ++row) {
        for (auto column = own.begin; column < own.end; ++column) part.push_back(values[index(row * 40 + column)]);
    }
    HostContext context({.threads = 1});
    auto const whole = RowLinear<Host, Deterministic>::create(context, weight, pieces, {3, 1});
    auto const read =
        RowLinear<Host, Deterministic>::create(context, f32_source(part, 6, own.size()), pieces, {3, 1}, {}, own);
    REQUIRE(whole);
    REQUIRE(read);
    CHECK(read->bytes() == whole->bytes());
    CHECK(read->own_inputs() == whole->own_inputs());
}

TEST_CASE(
    "row_linear: at each instruction set level and for each weight format, the same bits over any ranks, near "
    "float64") {
    auto const in = random_floats(format_tokens * format_inputs, 1);
    for (auto const format : all_weight_formats) {
        Stored const stored(format, format_outputs, format_inputs);
        auto exact = exact_linear(in, decoded(stored.source), format_tokens, format_outputs, format_inputs);
        // Products of quantised weights may take activations as fixed point of 22 bits below a block's largest.
        auto const weights = decoded(stored.source);
        for (std::int64_t i = 0; i < format_tokens * format_outputs; ++i) {
            double size = 0.0;
            for (std::int64_t k = 0; k < format_inputs; ++k)
                size += std::abs(weights[index(i % format_outputs * format_inputs + k)]);
            exact.tolerance[index(i)] += 0x1p-21 * size;
        }
        for (auto const isa : isa_level_list) {
            if (!has_isa(isa)) continue;
            CAPTURE(name_of(format));
            CAPTURE(name_of(isa));
            auto const alone = run_format(stored.source, isa, 1);
            REQUIRE(alone);
            CHECK(exact.wrong(alone->front()) == 0);
            // 24 blocks of 32 and 3 of 256: also more ranks than leaves.
            for (std::int32_t const ranks : {3, 8}) {
                auto const made = run_format(stored.source, isa, ranks);
                REQUIRE(made);
                CHECK(is_bitwise_equal(made->front(), alone->front()));
                CHECK(is_bitwise_equal(made->back(), alone->front()));
            }
        }
    }
}

TEST_CASE("row_linear: activations of eight bits give the same bits over any ranks and at every level") {
    for (auto const format : all_weight_formats) {
        if (!has_int8_product(format)) continue;
        Stored const stored(format, format_outputs, format_inputs);
        auto const alone = run_format(stored.source, IsaLevel::portable, 1, ProductActivations::int8);
        REQUIRE(alone);
        CHECK_FALSE(is_bitwise_equal(alone->front(), run_format(stored.source, IsaLevel::portable, 1)->front()));
        for (auto const isa : isa_level_list) {
            if (!has_isa(isa)) continue;
            CAPTURE(name_of(format));
            CAPTURE(name_of(isa));
            for (std::int32_t const ranks : {1, 3, 8}) {
                auto const made = run_format(stored.source, isa, ranks, ProductActivations::int8);
                REQUIRE(made);
                CHECK(is_bitwise_equal(made->front(), alone->front()));
                CHECK(is_bitwise_equal(made->back(), alone->front()));
            }
        }
    }
}

TEST_CASE("row_linear: activations of bf16 give the same bits over any ranks") {
    Stored const stored(WeightFormat::bf16, format_outputs, format_inputs);
    for (auto const isa : isa_level_list) {
        if (!has_isa(isa)) continue;
        CAPTURE(name_of(isa));
        auto const alone = run_format(stored.source, isa, 1, ProductActivations::bf16);
        REQUIRE(alone);
        CHECK_FALSE(is_bitwise_equal(alone->front(), run_format(stored.source, isa, 1)->front()));
        auto const made = run_format(stored.source, isa, 3, ProductActivations::bf16);
        REQUIRE(made);
        CHECK(is_bitwise_equal(made->front(), alone->front()));
        CHECK(is_bitwise_equal(made->back(), alone->front()));
    }
}
