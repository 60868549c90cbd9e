#include <shardwise/comm/shared_memory.hpp>

#include <doctest/doctest.h>

#include "../comm/processes.hpp"
#include "counting_backend.hpp"
#include "llama_block.hpp"
#include "stored_weight.hpp"

#include <algorithm>
#include <string>
#include <unistd.h>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t prompt = 4;
constexpr std::int64_t decoded_tokens = 2;

/// A prompt at once, then tokens one by one: what every rank has in the end.
template <class Policy>
Result<std::vector<Floats>> run_block(LlamaBlock const& block, std::int32_t ranks,
                                      StreamMode mode = StreamMode::immediate) {
    auto const in = random_floats((prompt + decoded_tokens) * block.hidden, 1);
    return on_ranks(
        ranks,
        [&](Threads& comm, HostContext& context, HostStream& stream) -> Result<Floats> {
            auto rank = BlockRank<Policy>::create(block, context, {ranks, comm.rank()});
            if (!rank) return rank.error();
            auto all = rank->forward(in, 0, prompt, comm, stream);
            if (!all) return all;
            for (auto past = prompt; past < prompt + decoded_tokens; ++past) {
                auto const next = rank->forward(in, past, 1, comm, stream);
                if (!next) return next;
                all->insert(all->end(), next->begin(), next->end());
            }
            return all;
        },
        mode);
}

}  // namespace

TEST_CASE(
    "tensor_parallel: a block of 9 heads with 3 key-value heads and an FFN of 172 equals float64 over any ranks") {
    LlamaBlock const block;
    auto const exact = block.exact(random_floats((prompt + decoded_tokens) * block.hidden, 1));
    Floats deterministic;
    for (std::int32_t const ranks : {1, 2, 3, 4, 8, 9}) {
        CAPTURE(ranks);
        auto const fast = run_block<Fast>(block, ranks);
        REQUIRE(fast);
        auto const fixed = run_block<Deterministic>(block, ranks);
        REQUIRE(fixed);
        if (deterministic.empty()) {
            deterministic = fixed->front();
            CHECK(wrong(exact, deterministic) == 0);
        }
        CHECK(wrong(exact, fast->front()) == 0);
        for (std::size_t rank = 0; rank < fast->size(); ++rank) {
            CHECK(is_bitwise_equal((*fast)[rank], fast->front()));
            CHECK(is_bitwise_equal((*fixed)[rank], deterministic));
        }
    }
}

TEST_CASE("tensor_parallel: grouped, multi-query and one head per key-value head work at any cut") {
    struct Heads {
        std::int64_t query;
        std::int64_t kv;
    };
    for (auto const heads : {Heads{4, 1}, Heads{6, 2}, Heads{5, 5}}) {
        LlamaBlock block{.heads = heads.query, .kv_heads = heads.kv, .ffn = 20, .hidden = 24};
        auto const exact = block.exact(random_floats((prompt + decoded_tokens) * block.hidden, 1));
        for (std::int32_t const ranks : {2, 4}) {
            CAPTURE(heads.query);
            CAPTURE(ranks);
            auto const made = run_block<Fast>(block, ranks);
            REQUIRE(made);
            CHECK(wrong(exact, made->back()) == 0);
        }
    }
}

TEST_CASE("tensor_parallel: a queued stream gives the same bits as one that computes at once") {
    LlamaBlock const block;
    auto const at_once = run_block<Deterministic>(block, 2);
    auto const queued = run_block<Deterministic>(block, 2, StreamMode::queued);
    REQUIRE(at_once);
    REQUIRE(queued);
    CHECK(is_bitwise_equal(at_once->front(), queued->back()));
}

TEST_CASE_TEMPLATE("tensor_parallel: sequence parallelism computes the same", Policy, Fast, Deterministic) {
    LlamaBlock const block;
    constexpr std::int64_t tokens = 5;
    auto const in = random_floats(tokens * block.hidden, 1);
    auto const exact = block.exact(in);
    Floats alone;
    for (std::int32_t const ranks : {1, 2, 3, 8}) {
        CAPTURE(ranks);
        auto const made =
            on_ranks(ranks, [&](Threads& comm, HostContext& context, HostStream& stream) -> Result<Floats> {
                auto rank = BlockRank<Policy>::create(block, context, {ranks, comm.rank()});
                if (!rank) return rank.error();
                return rank->forward_sequence_parallel(in, comm, stream);
            });
        REQUIRE(made);
        Floats rows;
        for (auto const& each : *made) rows.insert(rows.end(), each.begin(), each.end());
        CHECK(wrong(exact, rows) == 0);
        if (ranks == 1) alone = rows;
        if constexpr (Policy::has_fixed_tree) CHECK(is_bitwise_equal(rows, alone));
    }
}

TEST_CASE("tensor_parallel: more ranks than query heads are refused with the number that is legal") {
    LlamaBlock const block;
    HostContext context({.threads = 1});
    auto const refused = BlockRank<Fast>::create(block, context, {10, 0});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::invalid_argument);
    CHECK(refused.error().message().find("(got 10, expected 9)") != std::string::npos);
    CHECK(refused.error().message().find("at most as many ranks as query heads") != std::string::npos);
    TensorParallel<Host> const group(context, TensorPlace{2, 0});
    auto const pieces = group.ffn_pieces(block.ffn, block.down_source());
    CHECK(group.packed_gate_up(block.down_source(), pieces).error().code() == ErrorCode::shape_mismatch);
    CHECK(group.packed_qkv(block.qkv_source(), {9, 3, 4, 5}, head_pieces(9, 4)).error().code() ==
          ErrorCode::shape_mismatch);
}

TEST_CASE(
    "tensor_parallel: ranks, heads and pieces that are none are refused with what is legal, and nothing is divided") {
    LlamaBlock const block;
    HostContext context({.threads = 1});
    auto const text = [](auto const& result) { return result ? std::string("accepted") : result.error().message(); };
    auto const has = [](std::string const& message, char const* part) {
        return message.find(part) != std::string::npos;
    };
    struct Case {
        TensorPlace place;
        char const* message;
    };
    auto const width = block.heads * block.head_dim;
    for (auto const& none :
         {Case{{0, 0}, "ranks: are less than one (got 0, expected 1)"},
          Case{{-1, 0}, "ranks: are less than one (got -1"},
          Case{{2, 2}, "rank: is no rank of the group (got 2, expected 1)"},
          Case{{2, -1}, "rank: is no rank of the group (got -1, expected 1)"},
          Case{{5000, 0}, "ranks: are more than layers work with (got 5000, expected 1024); split the group"}}) {
        auto const* const message = none.message;
        CAPTURE(message);
        TensorParallel<Host, Deterministic> const group(context, none.place);
        CHECK(has(text(group.column_linear(block.output_source())), message));
        CHECK(has(text(group.column_linear(block.output_source(), block_pieces(block.hidden))), message));
        CHECK(has(text(group.packed_gate_up(block.gate_up_source(), block_pieces(block.ffn))), message));
        CHECK(has(text(group.packed_qkv(block.qkv_source(), {9, 3, 4, 4}, head_pieces(9, 4))), message));
        CHECK(has(text(group.row_linear(block.output_source(), block_pieces(width))), message));
        CHECK(has(text(group.mlp({block.gate_up_source(), block.down_source()})), message));
        CHECK(group.vocabulary(100).size() == 0);
    }
    TensorParallel<Host> const group(context, TensorPlace{2, 0});
    CHECK(has(text(group.row_linear(block.output_source(), InputPieces{width, 0, 4})), "made of less than one input"));
    CHECK(
        has(text(group.column_linear(block.output_source(), InputPieces{block.hidden, -1, 4})), "less than one input"));
    auto options = block.attention();
    options.shape.value_dim = 0;
    CHECK(has(text(group.attention({block.qkv_source(), block.output_source()}, options)),
              "value_dim: gives heads no width (got 0, expected 1)"));
    options.shape.value_dim = 4;
    options.shape.key_dim = -4;
    CHECK(has(text(group.attention({block.qkv_source(), block.output_source()}, options)),
              "key_dim: gives heads no width"));
    CHECK(has(text(group.heads(9, 3, group.attention_pieces(9, 0, block.output_source()))), "not made of whole heads"));
    options.shape.heads = 0;
    options.shape.key_dim = 4;
    CHECK(
        has(text(group.attention({block.qkv_source(), block.output_source()}, options)), "query heads are not dealt"));
}

TEST_CASE("tensor_parallel: a cache that begins before its first row or ends too early is refused by its own number") {
    LlamaBlock const block;
    HostContext context({.threads = 1});
    auto group = ThreadsGroup::create(1).value();
    auto comm = group.join(0).value();
    auto stream = context.make_stream();
    TensorParallel<Host> const alone(context, comm);
    auto const attention = alone.attention({block.qkv_source(), block.output_source()}, block.attention());
    REQUIRE(attention);
    Floats const in(index(2 * block.hidden));
    Floats out(in.size());
    Floats workspace(index(attention->workspace(2, 8)));
    Floats memory(index(8 * 3 * 4));
    auto const refusal = [&](std::int64_t keys, std::int64_t values, std::int64_t past) {
        KeyValueCache<Host> const cache{matrix(memory, keys, 12), matrix(memory, values, 12), past};
        auto const done = attention->forward(matrix(in, 2, block.hidden), {}, cache, matrix(out, 2, block.hidden),
                                             vector(workspace), comm, stream);
        return done ? std::string("accepted") : done.error().message();
    };
    CHECK(refusal(8, 8, 6) == "accepted");
    CHECK(refusal(8, 8, -1).find("(got -1, expected 0)") != std::string::npos);
    CHECK(refusal(8, 5, 4).find("(got 5, expected 6)") != std::string::npos);
}

namespace {

template <Communicator C>
Result<Floats> run_prompt(LlamaBlock const& block, Floats const& in, C& comm) {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto rank = BlockRank<Deterministic>::create(block, context, {comm.size(), comm.rank()});
    if (!rank) return rank.error();
    return rank->forward(in, 0, prompt, comm, stream);
}

}  // namespace

TEST_CASE("communicators: a deterministic block has the same bits over processes as over threads and alone") {
    LlamaBlock const block;
    auto const in = random_floats(prompt * block.hidden, 1);
    auto group = ThreadsGroup::create(1).value();
    auto single = group.join(0).value();
    auto const alone = run_prompt(block, in, single);
    REQUIRE(alone);
    for (std::int32_t const ranks : {2, 3}) {
        auto const key = "parallel-" + std::to_string(getpid()) + "-" + std::to_string(ranks);
        std::vector<std::function<Result<>()>> processes;
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            processes.push_back([&, rank]() -> Result<> {
                auto comm = SharedMemory::join(key, rank, ranks, {});
                if (!comm) return comm.error();
                auto const made = run_prompt(block, in, *comm);
                if (!made) return made.error();
                if (is_bitwise_equal(*made, *alone)) return {};
                return Error{ErrorCode::invalid_argument}.in("block").because("has other bits than alone");
            });
        }
        for (auto const& outcome : run_processes(processes)) {
            CAPTURE(outcome.message);
            CHECK(outcome.has_answered);
            CHECK(outcome.succeeded);
        }
    }
}

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
    typename TensorParallel<Counting, Policy>::MlpWeights const mlp_weights{
        zeros(room, format, 2 * sizes.ffn, sizes.hidden), zeros(room, format, sizes.hidden, sizes.ffn)};
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
        auto const mlp = group.mlp(mlp_weights);
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

TEST_CASE("deterministic costs: leaves of int8 are whole blocks of those that are held together") {
    constexpr auto format = WeightFormat::int8;
    for (std::int64_t const ffn : {1024, 5632, 11008}) {
        Stored const first(format, 2 * ffn, 64);
        Stored const down(format, 64, ffn);
        auto const bytes = [&]<class Policy>(Policy, std::int64_t ranks) {
            HostContext context({.threads = 1});
            TensorParallel<Host, Policy> const group(context, TensorPlace{ranks, 0});
            auto const mlp = group.mlp({first.source, down.source});
            REQUIRE(mlp);
            return static_cast<double>(mlp->bytes().count());
        };
        auto const whole = bytes(Fast{}, 1);
        // A third of the whole has, beside each byte of a row, the row's scale once per leaf.
        auto const leaves = static_cast<double>(std::min<std::int64_t>(64, ffn / 32));
        auto const scales = 4.0 * leaves / static_cast<double>(ffn) / 3.0;
        for (std::int64_t const ranks : {1, 2, 3, 4, 8}) {
            CAPTURE(ffn);
            CAPTURE(ranks);
            CHECK(bytes(Deterministic{}, ranks) <= ((1.0 + scales) / static_cast<double>(ranks) + 0.02) * whole);
        }
    }
    // Neither a block that cannot be parted nor heads have to do with it.
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
