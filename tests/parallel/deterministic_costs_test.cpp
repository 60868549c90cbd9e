// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "counting_backend.hpp"
#include "llama_block.hpp"
#include "stored_weight.hpp"

#include <algorithm>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t counted_tokens = 2;

struct Sizes {
    std::int64_t hidden;
    std::int64_t heads;
    std::int64_t kv_heads;
    std::int64_t head_dim;
    std::int64_t ffn;
};

/// What one rank computes and holds.
struct Cost {
    double products = 0.0;
    double additions = 0.0;
    double bytes = 0.0;
};

struct Costs {
    std::vector<Cost> attention;
    std::vector<Cost> mlp;
};

WeightSource zeros(std::vector<std::byte> const& room, WeightFormat format, std::int64_t outputs, std::int64_t inputs) {
    auto const bytes = index(outputs * detail::data_bytes(format, inputs));
    REQUIRE(bytes <= room.size());
    return {.format = format,
            .outputs = outputs,
            .inputs = inputs,
            .data = std::span<std::byte const>(room).first(bytes),
            .scales = {}};
}

/// Each rank's cost of an attention's projections and of an FFN, counted while they run.
template <class Policy>
Costs costs_of(Sizes const& sizes, WeightFormat format, std::int32_t ranks) {
    std::vector<std::byte> const room(
        index(8 * sizes.hidden * std::max(2 * sizes.ffn, 3 * sizes.heads * sizes.head_dim)));
    auto const qkv_rows = (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim;
    auto const qkv = zeros(room, format, qkv_rows, sizes.hidden);
    auto const output = zeros(room, format, sizes.hidden, sizes.heads * sizes.head_dim);
    auto const gate_up = zeros(room, format, 2 * sizes.ffn, sizes.hidden);
    auto const down = zeros(room, format, sizes.hidden, sizes.ffn);
    Costs costs{std::vector<Cost>(static_cast<std::size_t>(ranks)), std::vector<Cost>(static_cast<std::size_t>(ranks))};
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        TensorParallel<Counting, Policy> const group(context, comm);
        auto const pieces = group.attention_pieces(sizes.heads, sizes.head_dim, output);
        auto const columns =
            group.packed_qkv(qkv, {sizes.heads, sizes.kv_heads, sizes.head_dim, sizes.head_dim}, pieces);
        if (!columns) return columns.error();
        auto const rows = group.row_linear(output, pieces);
        if (!rows) return rows.error();
        auto const mlp = MlpRank<Counting, Policy>::create(group, gate_up, down);
        if (!mlp) return mlp.error();
        Floats in(index(counted_tokens * sizes.hidden));
        Floats out(in.size());
        Floats heads(index(counted_tokens * rows->inputs()));
        Floats made(index(counted_tokens * columns->outputs()));
        Floats workspace(index(std::max(rows->workspace(counted_tokens), mlp->workspace(counted_tokens))));
        auto const input = counted(matrix(std::as_const(in), counted_tokens, sizes.hidden));
        auto const result = counted(matrix(out, counted_tokens, sizes.hidden));
        auto& counted_flops = Counting::flops();
        auto const rank = static_cast<std::size_t>(comm.rank());
        counted_flops = {};
        if (auto const ran = columns->forward(input, counted(matrix(made, counted_tokens, columns->outputs())), stream);
            !ran)
            return ran;
        if (auto const ran = rows->forward(counted(matrix(std::as_const(heads), counted_tokens, rows->inputs())),
                                           result, counted(vector(workspace)), comm, stream);
            !ran)
            return ran;
        costs.attention[rank] = {counted_flops.products, counted_flops.additions,
                                 static_cast<double>((columns->bytes() + rows->bytes()).count())};
        counted_flops = {};
        if (auto const ran = mlp->forward(input, result, counted(vector(workspace)), comm, stream); !ran) return ran;
        costs.mlp[rank] = {counted_flops.products, counted_flops.additions, static_cast<double>(mlp->bytes().count())};
        return finish(stream);
    });
    REQUIRE(done);
    return costs;
}

constexpr std::int64_t held_outputs = 16;

/// Each rank's cost of one row-parallel layer, counted while it runs.
template <class Policy>
std::vector<Cost> row_costs(WeightSource const& weight, InputPieces const& pieces, std::int32_t ranks) {
    std::vector<Cost> costs(static_cast<std::size_t>(ranks));
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto const layer = RowLinear<Counting, Policy>::create(context, weight, pieces, {ranks, comm.rank()});
        if (!layer) return layer.error();
        Floats const in(index(counted_tokens * layer->inputs()));
        Floats out(index(counted_tokens * held_outputs));
        Floats workspace(index(layer->workspace(counted_tokens)));
        auto& flops = Counting::flops();
        flops = {};
        auto const ran = layer->forward(counted(matrix(in, counted_tokens, layer->inputs())),
                                        counted(matrix(out, counted_tokens, held_outputs)), counted(vector(workspace)),
                                        comm, stream);
        if (!ran) return ran;
        costs[static_cast<std::size_t>(comm.rank())] = {flops.products, flops.additions,
                                                        static_cast<double>(layer->bytes().count())};
        return finish(stream);
    });
    REQUIRE(done);
    return costs;
}

template <class Member>
double largest(std::vector<Cost> const& costs, Member const& member) {
    double most = 0.0;
    for (auto const& cost : costs) most = std::max(most, member(cost));
    return most;
}

}  // namespace

TEST_CASE(
    "deterministic costs: products and weight bytes of a rank are its part of the plain whole and 2 %, additions too") {
    // 1 / 32 of llama-2-7b in heads' size and hidden width, and an FFN that nothing divides.
    for (auto const& sizes : {Sizes{256, 32, 32, 8, 688}, Sizes{64, 24, 24, 4, 1000}}) {
        auto const whole = costs_of<Fast>(sizes, WeightFormat::f32, 1);
        auto const all_products = whole.attention[0].products + whole.mlp[0].products;
        auto const all_bytes = whole.attention[0].bytes + whole.mlp[0].bytes;
        for (std::int32_t const ranks : {1, 2, 4, 8}) {
            CAPTURE(sizes.ffn);
            CAPTURE(ranks);
            auto const costs = costs_of<Deterministic>(sizes, WeightFormat::f32, ranks);
            double products = 0.0;
            for (std::size_t rank = 0; rank < costs.mlp.size(); ++rank) {
                auto const& attention = costs.attention[rank];
                auto const& mlp = costs.mlp[rank];
                auto const limit = 1.0 / ranks + 0.02;
                CHECK(attention.products + mlp.products <= limit * all_products);
                CHECK(attention.bytes + mlp.bytes <= limit * all_bytes);
                CHECK(mlp.products <= limit * whole.mlp[0].products);
                CHECK(mlp.bytes <= limit * whole.mlp[0].bytes);
                // Sums of leaves: one addition per leaf of its own and per node of the others, for each output.
                CHECK(attention.additions + mlp.additions <= 0.05 * all_products);
                products += attention.products + mlp.products;
            }
            // Nothing is computed twice.
            CHECK(products == all_products);
        }
    }
}

TEST_CASE("deterministic costs: where heads do not divide, the largest share of whole heads") {
    Sizes const sizes{72, 9, 3, 8, 172};
    auto const whole = costs_of<Fast>(sizes, WeightFormat::f32, 1);
    for (std::int32_t const ranks : {2, 3, 4, 8}) {
        CAPTURE(ranks);
        auto const costs = costs_of<Deterministic>(sizes, WeightFormat::f32, ranks);
        auto const heads = split_units(9, ranks, 0).size();
        std::int64_t kv_heads = 0;
        for (std::int32_t rank = 0; rank < ranks; ++rank)
            kv_heads = std::max(kv_heads, split_kv_heads(9, 3, ranks, rank).size());
        // Queries and output: whole heads; keys and values: those that they read.
        auto const per_head = 2.0 * counted_tokens * static_cast<double>(sizes.hidden * sizes.head_dim);
        auto const expected = per_head * static_cast<double>(2 * heads + 2 * kv_heads);
        CHECK(largest(costs.attention, [](Cost const& cost) { return cost.products; }) <= expected);
        CHECK(largest(costs.mlp, [](Cost const& cost) { return cost.products; }) <=
              (1.0 / ranks + 0.02) * whole.mlp[0].products);
    }
}

TEST_CASE("deterministic costs: a rank holds what Fast holds of its inputs, and no more than its part and 2 %") {
    for (auto const format : all_weight_formats) {
        // Widths of FFNs, then heads of 64, 128 and 80, which parts the blocks of 32 in which int8 is held.
        auto const group = std::int64_t{format == WeightFormat::int4 ? 32 : 0};
        auto const block = input_grain(format, group);
        for (auto const& pieces :
             {cut_width<Deterministic>(1024, weight_grain(format, group)),
              cut_width<Deterministic>(4096, weight_grain(format, group)),
              cut_width<Deterministic>(11008, weight_grain(format, group)), head_pieces(16, 64, block),
              head_pieces(32, 128, block), head_pieces(32, 80, block)}) {
            Stored const stored(format, held_outputs, pieces.inputs);
            auto const whole = row_costs<Fast>(stored.source, block_pieces(pieces.inputs, block), 1).front();
            double additions = 0.0;
            for (std::int32_t const ranks : {1, 2, 4, 8}) {
                CAPTURE(name_of(format));
                CAPTURE(pieces.inputs);
                CAPTURE(pieces.grain);
                CAPTURE(ranks);
                // Blocks (or heads that share one) are not parted: of q6_k's four in 1024 inputs a rank of eight has one.
                auto const most = ceil_divide(pieces.count, ranks) * ceil_divide(pieces.grains(), pieces.count);
                auto const share = static_cast<double>(most) / static_cast<double>(pieces.grains());
                auto const limit = std::max(1.0 / ranks, pieces.grains() < 64 ? share : 0.0) + 0.02;
                auto const costs = row_costs<Deterministic>(stored.source, pieces, ranks);
                double products = 0.0;
                for (std::int32_t rank = 0; rank < ranks; ++rank) {
                    auto const& cost = costs[static_cast<std::size_t>(rank)];
                    CHECK(cost.bytes <= limit * whole.bytes);
                    CHECK(cost.products <= limit * whole.products);
                    products += cost.products;
                    auto const own = pieces.inputs_of_rank(ranks, rank).size();
                    auto const lead = detail::lead_inputs(format, pieces, {ranks, rank});
                    auto const held = packed_weight_bytes(format, held_outputs, own == 0 ? 0 : own + lead, group);
                    REQUIRE(held);
                    CHECK(cost.bytes == static_cast<double>(own == 0 ? 0 : held->count()));
                }
                CHECK(products == whole.products);
                // A leaf less than there are, however the ranks share them.
                if (ranks == 1) additions = costs.front().additions;
                CHECK(additions == static_cast<double>((pieces.count - 1) * counted_tokens * held_outputs));
            }
        }
    }
    CHECK(weight_grain(WeightFormat::int8).input == 1);
    CHECK(weight_grain(WeightFormat::int8).leaf == 32);
    CHECK(weight_grain(WeightFormat::int4, 48).leaf == 96);
    CHECK(weight_grain(WeightFormat::bf16).leaf == 1);
    CHECK(weight_grain(WeightFormat::q4_k).leaf == 256);
}

TEST_CASE("deterministic costs: quantised blocks of 32 along the inputs") {
    Sizes const sizes{64, 8, 8, 32, 1536};
    auto const whole = costs_of<Fast>(sizes, WeightFormat::q8_0, 1);
    for (std::int32_t const ranks : {2, 3, 4, 8}) {
        CAPTURE(ranks);
        auto const costs = costs_of<Deterministic>(sizes, WeightFormat::q8_0, ranks);
        CHECK(largest(costs.mlp, [](Cost const& cost) { return cost.products; }) <=
              (1.0 / ranks + 0.02) * whole.mlp[0].products);
        CHECK(largest(costs.mlp, [](Cost const& cost) { return cost.bytes; }) <=
              (1.0 / ranks + 0.02) * whole.mlp[0].bytes);
    }
}
