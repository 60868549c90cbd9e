// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/block_messages.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/parallel/expert_parallel.hpp>
#include <shardwise/parallel/pipeline_parallel.hpp>
#include <shardwise/parallel/vocab_head.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>

#include <doctest/doctest.h>

#include "llama_block.hpp"

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t tokens = 6;

/// What the ranks share, where latency and bytes both count; collectives get all of it.
constexpr Link wire{LinkType::memory_bus, 10e9, 1e-6};
constexpr Efficiency whole_link = [] {
    Efficiency efficiency;
    efficiency.link = 1.0;
    return efficiency;
}();

/// What counted traffic takes on that link.
double seconds(CollectiveTraffic const& traffic) {
    return static_cast<double>(traffic.messages) * wire.latency + static_cast<double>(traffic.bytes) / wire.bandwidth;
}

doctest::Approx near(double value) {
    return doctest::Approx(value).epsilon(1e-9).scale(0.0);
}

/// The first layer of a model.
BlockBody first_layer(ModelConfig const& config) {
    auto const model = describe(config);
    REQUIRE(model);
    for (auto const& each : model->program.blocks()) {
        if (each.is_numbered) return model->program.body(each);
    }
    return {};
}

/// The same block as the planner knows it.
BlockBody layer_of(LlamaBlock const& block) {
    auto config = presets::llama_2_7b;
    config.hidden_size = block.hidden;
    config.intermediate_size = block.ffn;
    config.heads = block.heads;
    config.kv_heads = block.kv_heads;
    config.head_dim = block.head_dim;
    return first_layer(config);
}

BlockMessages planned(LlamaBlock const& block, std::int64_t ranks, bool is_sequence_parallel = false) {
    Step const step{.new_tokens = tokens, .context = tokens, .dtype = Dtype::f32, .kv_dtype = Dtype::f32};
    auto const body = layer_of(block);
    auto const context = op_context(body, step, {.tp = ranks, .is_sequence_parallel = is_sequence_parallel});
    return block_messages(body, context, {.tp = RankGroup::in_node(ranks, wire)}, whole_link);
}

/// What each rank's communicator counts while body(comm, context, stream) runs.
template <class Body>
std::vector<Traffic> counted(std::int32_t ranks, Body const& body) {
    std::vector<Traffic> traffic(static_cast<std::size_t>(ranks));
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        if (auto const ran = body(comm, context, stream); !ran) return ran;
        if (auto const finished = finish(stream); !finished) return finished;
        traffic[static_cast<std::size_t>(comm.rank())] = comm.traffic();
        return {};
    });
    REQUIRE(done);
    return traffic;
}

template <class Policy>
std::vector<Traffic> traffic_of_block(LlamaBlock const& block, std::int32_t ranks, bool is_sequence_parallel = false) {
    auto const in = random_floats(tokens * block.hidden, 1);
    return counted(ranks, [&](Threads& comm, HostContext& context, HostStream& stream) -> Result<> {
        auto rank = BlockRank<Policy>::create(block, context, {ranks, comm.rank()});
        if (!rank) return rank.error();
        auto const made = is_sequence_parallel ? rank->forward_sequence_parallel(in, comm, stream)
                                               : rank->forward(in, 0, tokens, comm, stream);
        if (!made) return made.error();
        return {};
    });
}

}  // namespace

TEST_CASE("messages: a llama block sends what the plan's cost model says, to the byte and the message") {
    LlamaBlock const block;
    for (std::int32_t const ranks : {1, 2, 3, 4}) {
        CAPTURE(ranks);
        auto const expected = planned(block, ranks);
        for (auto const& rank : traffic_of_block<Fast>(block, ranks)) {
            CHECK(rank.of(CollectiveKind::all_reduce).calls == (ranks > 1 ? 2 : 0));
            CHECK(rank.total().calls == rank.of(CollectiveKind::all_reduce).calls);
            if (ranks == 1) {
                CHECK(expected.forward == 0.0);
                CHECK(rank.total() == CollectiveTraffic{});
            } else {
                CHECK(seconds(rank.total()) == near(expected.forward));
            }
        }
    }
}

TEST_CASE("messages: a sequence-parallel block scatters and gathers what the cost model says") {
    LlamaBlock const block;
    for (std::int32_t const ranks : {2, 3, 6}) {
        CAPTURE(ranks);
        auto const whole = static_cast<double>(tokens * block.hidden) * 4.0;
        double gathered = 0.0;
        double scattered = 0.0;
        for (auto const& rank : traffic_of_block<Fast>(block, ranks, true)) {
            CHECK(rank.of(CollectiveKind::reduce_scatter).calls == 2);
            CHECK(rank.of(CollectiveKind::all_gather).calls == 2);
            CHECK(rank.total().calls == 4);
            gathered += static_cast<double>(rank.of(CollectiveKind::all_gather).bytes);
            scattered += static_cast<double>(rank.of(CollectiveKind::reduce_scatter).bytes);
            // The ranks have as many tokens each.
            CHECK(seconds(rank.total()) == near(planned(block, ranks, true).forward));
        }
        CHECK(gathered == 2.0 * whole * (ranks - 1));
        CHECK(scattered == 2.0 * whole * (ranks - 1));
    }
}

TEST_CASE("messages: the backward pass of a block sums one gradient for q, k and v and one for gate and up") {
    LlamaBlock const block;
    for (std::int32_t const ranks : {2, 4}) {
        CAPTURE(ranks);
        auto const traffic = counted(ranks, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<> {
            Floats gradient(index(tokens * block.hidden));
            for (int sum = 0; sum < 2; ++sum) submit_all_reduce(comm, vector(gradient), ReduceOp::sum, stream);
            return {};
        });
        for (auto const& rank : traffic) CHECK(seconds(rank.total()) == near(planned(block, ranks).backward));
    }
}

TEST_CASE("messages: logits over a sharded vocabulary take what the cost model says") {
    constexpr std::int64_t vocabulary = 40;
    constexpr std::int64_t rows = 3;
    for (std::int32_t const ranks : {2, 4}) {
        CAPTURE(ranks);
        auto const share_of = [&](Threads const& comm) { return split_units(vocabulary, ranks, comm.rank()); };
        auto const gathered = counted(ranks, [&](Threads& comm, HostContext&, HostStream& stream) -> Result<> {
            Floats const own(index(rows * share_of(comm).size()));
            Floats out(index(rows * vocabulary));
            Floats workspace(out.size());
            return gather_logits<Host>(matrix(own, rows, share_of(comm).size()), matrix(out, rows, vocabulary),
                                       vector(workspace), comm, stream);
        });
        for (auto const& rank : gathered) {
            CHECK(rank.of(CollectiveKind::all_gather).calls == 1);
            CHECK(rank.total().bytes == 4 * rows * vocabulary * (ranks - 1) / ranks);
        }
    }
}

TEST_CASE(
    "messages: a deterministic block gathers one row per tree node, one node per rank where they are powers of two") {
    LlamaBlock const block{.heads = 8, .kv_heads = 4, .hidden = 32};
    for (std::int32_t const ranks : {2, 4, 8}) {
        CAPTURE(ranks);
        for (auto const& rank : traffic_of_block<Deterministic>(block, ranks)) {
            CHECK(rank.of(CollectiveKind::all_gather).calls == 2);
            CHECK(rank.total().bytes == 2 * (ranks - 1) * tokens * block.hidden * 4);
        }
    }
}

TEST_CASE("messages: experts get and return rows as the cost model says, after the numbers of rows") {
    auto config = presets::mixtral_8x7b;
    config.hidden_size = 16;
    auto const body = first_layer(config);
    // Each expert is chosen by as many tokens of each rank.
    constexpr std::int64_t own_tokens = 12;
    ExpertShape const shape{config.experts, config.experts_per_token, config.hidden_size, own_tokens};
    for (std::int32_t const ranks : {2, 4, 8}) {
        CAPTURE(ranks);
        Step const step{.new_tokens = own_tokens, .context = own_tokens, .dtype = Dtype::f32, .kv_dtype = Dtype::f32};
        auto const expected = block_messages(body, op_context(body, step, {.ep = ranks}),
                                             {.ep = RankGroup::in_node(ranks, wire), .product_bits = 32.0}, whole_link);
        auto const taken = counted(ranks, [&](Threads& comm, HostContext& context, HostStream& stream) -> Result<> {
            auto layer = ExpertParallel<Host, Threads>::create(context, comm, shape);
            if (!layer) return layer.error();
            std::vector<std::int32_t> ids;
            for (std::int64_t pair = 0; pair < own_tokens * shape.experts_per_token; ++pair)
                ids.push_back(static_cast<std::int32_t>(pair % shape.experts));
            Floats const weights(ids.size(), 0.5F);
            auto rows = random_floats(own_tokens * shape.width, 1);
            auto const expert = [](std::int64_t, TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                                   HostStream&) -> Result<> {
                std::copy_n(in.data(), in.elements(), out.data());
                return {};
            };
            auto const all = matrix(rows, own_tokens, shape.width);
            return layer->forward(
                all, TensorView<std::int32_t const, 2, Host>(ids.data(), {own_tokens, shape.experts_per_token}),
                matrix(weights, own_tokens, shape.experts_per_token), all, expert, stream,
                Deadline::after(std::chrono::seconds(60)));
        });
        for (auto const& rank : taken) {
            CHECK(rank.of(CollectiveKind::all_to_all).calls == 3);
            CHECK(rank.total().calls == 3);
            CHECK(seconds(rank.total()) == near(expected.routed));
        }
    }
}

TEST_CASE("messages: a pipeline's stage takes what the cost model says of each micro-batch, in both directions") {
    struct Stage {
        using Rows = TensorView<float, 2, Host>;
        using In = TensorView<float const, 2, Host>;
        Result<> forward(PipelineSlot const&, In, Rows, HostStream&) { return {}; }
        Result<> backward(PipelineSlot const&, In, In, Rows, HostStream&) { return {}; }
        Result<> weights(PipelineSlot const&, In, In, HostStream&) { return {}; }
    };
    constexpr std::int64_t micro_batches = 5;
    constexpr std::int64_t width = 24;
    auto const taken = counted(3, [&](Threads& comm, HostContext& context, HostStream& stream) -> Result<> {
        auto pipeline = PipelineParallel<Host, Threads>::create(
            context, comm, one_forward_one_backward(3, micro_batches), {tokens, width});
        if (!pipeline) return pipeline.error();
        Stage stage;
        return pipeline->run(stage, stream, Deadline::after(std::chrono::seconds(60)));
    });
    auto const one = send_seconds(4.0 * static_cast<double>(tokens * width), wire, whole_link);
    for (std::size_t rank = 0; rank < 3; ++rank) {
        // Inputs from the stage before, gradients from the stage after.
        auto const neighbours = rank == 1 ? 2 : 1;
        auto const& received = taken[rank].of(CollectiveKind::receive);
        CHECK(received.calls == neighbours * micro_batches);
        CHECK(seconds(received) == near(static_cast<double>(neighbours * micro_batches) * one));
        CHECK(seconds(taken[rank].total()) == seconds(received));
    }
}
