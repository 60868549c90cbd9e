// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/shared_memory.hpp>

#include <doctest/doctest.h>

#include "../comm/processes.hpp"
#include "block_cases.hpp"
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
    CHECK(refused.error().message().find("(got 10, expected at most 9)") != std::string::npos);
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
         {Case{{0, 0}, "ranks: are less than one (got 0, expected at least 1)"},
          Case{{-1, 0}, "ranks: are less than one (got -1"},
          Case{{2, 2}, "rank: is no rank of the group (got 2, expected 0 to 1)"},
          Case{{2, -1}, "rank: is no rank of the group (got -1, expected 0 to 1)"},
          Case{{5000, 0},
               "ranks: are more than layers work with (got 5000, expected at most 1024); split the group"}}) {
        auto const* const message = none.message;
        CAPTURE(message);
        TensorParallel<Host, Deterministic> const group(context, none.place);
        CHECK(has(text(group.column_linear(block.output_source())), message));
        CHECK(has(text(group.column_linear(block.output_source(), block_pieces(block.hidden))), message));
        CHECK(has(text(group.packed_gate_up(block.gate_up_source(), block_pieces(block.ffn))), message));
        CHECK(has(text(group.packed_qkv(block.qkv_source(), {9, 3, 4, 4}, head_pieces(9, 4))), message));
        CHECK(has(text(group.row_linear(block.output_source(), block_pieces(width))), message));
        CHECK(group.vocabulary(100).size() == 0);
    }
    TensorParallel<Host> const group(context, TensorPlace{2, 0});
    CHECK(has(text(group.row_linear(block.output_source(), InputPieces{width, 0, 4})), "made of less than one input"));
    CHECK(
        has(text(group.column_linear(block.output_source(), InputPieces{block.hidden, -1, 4})), "less than one input"));
    auto const packed = [&](PackedQkv const& heads) {
        return text(group.packed_qkv(block.qkv_source(), heads, head_pieces(9, 4)));
    };
    CHECK(has(packed({9, 3, 4, 0}), "value_dim: gives heads no width (got 0, expected at least 1)"));
    CHECK(has(packed({9, 3, -4, 4}), "key_dim: gives heads no width"));
    CHECK(has(text(group.heads(9, 3, group.attention_pieces(9, 0, block.output_source()))), "not made of whole heads"));
    CHECK(has(text(group.heads(0, 3, group.attention_pieces(0, 4, block.output_source()))),
              "the query heads are not a multiple"));
}

TEST_CASE("communicators: a deterministic block has the same bits over processes as over threads and alone") {
    for (std::int32_t const ranks : {2, 3}) {
        auto const key = "parallel-" + std::to_string(getpid()) + "-" + std::to_string(ranks);
        std::vector<std::function<Result<>()>> processes;
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            processes.push_back([key, rank, ranks]() -> Result<> {
                auto comm = SharedMemory::join(key, rank, ranks, {});
                return comm ? check_deterministic_block(*comm) : comm.error();
            });
        }
        for (auto const& outcome : run_processes(processes)) {
            CAPTURE(outcome.message);
            CHECK(outcome.has_answered);
            CHECK(outcome.succeeded);
        }
    }
}
