// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/kernels/route.hpp>
#include <shardwise/parallel/expert_parallel.hpp>
#include <shardwise/parallel/pipeline_parallel.hpp>
#include <shardwise/parallel/tensor_parallel.hpp>
#include <shardwise/schedule/forward_only.hpp>

#include <doctest/doctest.h>

#include "../comm/shared_memory_ranks.hpp"
#include "mlp_rank.hpp"
#include "parallel_cases.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

constexpr std::int64_t width = 12;
constexpr std::int64_t ffn = 20;
constexpr std::int64_t experts = 6;
constexpr std::int64_t chosen = 2;
constexpr std::int64_t blocks = 4;
constexpr std::int64_t micro_batches = 3;
constexpr std::int64_t tokens = 8;  // of a micro-batch, over the expert-parallel ranks

Deadline soon() {
    return Deadline::after(std::chrono::seconds(20));
}

/// The weights of a block: a gated FFN for every token, then experts of one matrix each.
struct Block {
    Floats gate_up, down, router, expert;
    explicit Block(unsigned seed)
        : gate_up(random_floats(2 * ffn * width, seed, 0.4F)),
          down(random_floats(width * ffn, seed + 1, 0.4F)),
          router(random_floats(experts * width, seed + 2)),
          expert(random_floats(experts * width * width, seed + 3, 0.3F)) {}
};
struct Network {
    std::vector<Block> all;
    Network() {
        for (unsigned block = 0; block < blocks; ++block) all.emplace_back(10 * block);
    }
};

struct Degrees {
    std::int32_t tp = 1;
    std::int32_t pp = 1;
    std::int32_t ep = 1;
};

/// One rank's part of a block.
template <Communicator C>
class BlockPart {
public:
    static Result<BlockPart> create(Block const& block, HostContext& context, C& tp, C& ep, std::int64_t max_tokens) {
        TensorParallel<Host, Deterministic> const group(context, tp);
        auto mlp = MlpRank<Host, Deterministic>::create(group, f32_source(block.gate_up, 2 * ffn, width),
                                                        f32_source(block.down, width, ffn));
        if (!mlp) return mlp.error();
        auto layer = ExpertParallel<Host, C>::create(context, ep, {experts, chosen, width, max_tokens});
        if (!layer) return layer.error();
        auto router = Host::hold_weight(context, f32_source(block.router, experts, width));
        if (!router) return router.error();
        BlockPart part(tp, std::move(*mlp), std::move(*layer), std::move(*router));
        auto const own = part.layer_.local_experts();
        for (auto e = own.begin; e < own.end; ++e) {
            auto source = f32_source(block.expert, width, width);
            source.data =
                source.data.subspan(index(e * width * width) * sizeof(float), index(width * width) * sizeof(float));
            auto weight = Host::hold_weight(context, source);
            if (!weight) return weight.error();
            part.experts_.push_back(std::move(*weight));
        }
        return Result<BlockPart>(std::move(part));
    }

    Result<> forward(TensorView<float, 2, Host> rows, HostStream& stream) {
        auto const count = rows.extent(0);
        Floats workspace(index(mlp_.workspace(count)) + 1);
        Floats out(index(count * width) + 1);
        TensorView<float, 2, Host> const made(out.data(), {count, width});
        if (auto const done = mlp_.forward(rows, made, vector(workspace), *tp_, stream); !done) return done;
        if (auto const done = add(rows, out, stream); !done) return done;

        Floats logits(index(count * experts) + 1);
        Floats weights(index(count * chosen) + 1);
        std::vector<std::int32_t> ids(weights.size());
        TensorView<float, 2, Host> const scores(logits.data(), {count, experts});
        TensorView<std::int32_t, 2, Host> const chosen_ids(ids.data(), {count, chosen});
        TensorView<float, 2, Host> const chosen_weights(weights.data(), {count, chosen});
        if (auto const done = Host::multiply(rows, router_, scores, stream); !done) return done;
        if (auto const done = route(scores, {}, chosen_ids, chosen_weights,
                                    {.experts_per_token = chosen, .renormalises = true}, stream);
            !done)
            return done;
        auto const expert = [this](std::int64_t local, TensorView<float const, 2, Host> in,
                                   TensorView<float, 2, Host> to,
                                   HostStream& queue) { return Host::multiply(in, experts_[index(local)], to, queue); };
        if (auto const done = layer_.forward(rows, chosen_ids, chosen_weights, made, expert, stream, soon()); !done)
            return done;
        return add(rows, out, stream);
    }

    [[nodiscard]] std::int64_t pairs() const { return layer_.pairs_computed(); }

private:
    BlockPart(C& tp, MlpRank<Host, Deterministic> mlp, ExpertParallel<Host, C> layer, HostWeight router)
        : tp_(&tp), mlp_(std::move(mlp)), layer_(std::move(layer)), router_(std::move(router)) {}

    static Result<> add(TensorView<float, 2, Host> rows, Floats const& made, HostStream& stream) {
        if (auto const done = stream.synchronize(soon()); !done) return done;
        for (std::int64_t i = 0; i < rows.elements(); ++i) rows.data()[i] += made[index(i)];
        return {};
    }

    C* tp_;
    MlpRank<Host, Deterministic> mlp_;
    ExpertParallel<Host, C> layer_;
    HostWeight router_;
    std::vector<HostWeight> experts_;
};

/// [micro-batch][tokens, width] from the last stage, and pairs of all ranks.
struct Answer {
    float rows[micro_batches][tokens * width];
    std::atomic<std::int64_t> pairs;
};

/// An answer that forked ranks write to as well.
class SharedAnswer {
public:
    SharedAnswer()
        : memory_(mmap(nullptr, sizeof(Answer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
          answer_(memory_ == MAP_FAILED ? nullptr : new (memory_) Answer{}) {
        REQUIRE(answer_ != nullptr);
    }
    ~SharedAnswer() { munmap(memory_, sizeof(Answer)); }
    SharedAnswer(SharedAnswer const&) = delete;
    SharedAnswer& operator=(SharedAnswer const&) = delete;
    Answer& operator*() const { return *answer_; }
    Answer* operator->() const { return answer_; }

private:
    void* memory_;
    Answer* answer_;
};

/// A stage of the pipeline: its blocks over its micro-batches.
template <Communicator C>
struct Stage {
    std::vector<BlockPart<C>> parts;
    std::vector<Floats> const* inputs;
    Answer* answer;
    UnitRange own;  // this rank's tokens of a micro-batch
    bool is_first_of_tp;

    Result<> forward(PipelineSlot const& slot, TensorView<float const, 2, Host> in, TensorView<float, 2, Host> out,
                     HostStream& stream) {
        auto const m = index(slot.micro_batch);
        auto const* const first = in.empty() ? (*inputs)[m].data() + own.begin * width : in.data();
        Floats rows(first, first + own.size() * width);
        for (auto& part : parts) {
            if (auto const done = part.forward({rows.data(), {own.size(), width}}, stream); !done) return done;
        }
        if (!out.empty()) {
            std::copy(rows.begin(), rows.end(), out.data());
        } else if (is_first_of_tp) {
            std::copy(rows.begin(), rows.end(), answer->rows[m] + own.begin * width);
        }
        return {};
    }
};

/// One rank's part of everything.
template <Communicator C>
Result<> compute(C& world, Network const& network, std::vector<Floats> const& inputs, Degrees const& degrees,
                 Answer& answer) {
    auto const t = world.rank() % degrees.tp;
    auto const e = world.rank() / degrees.tp % degrees.ep;
    auto const p = world.rank() / (degrees.tp * degrees.ep);
    auto tp = world.split(p * degrees.ep + e);
    if (!tp) return tp.error();
    auto ep = world.split(p * degrees.tp + t);
    if (!ep) return ep.error();
    auto pp = world.split(e * degrees.tp + t);
    if (!pp) return pp.error();
    if (tp->rank() != t || ep->rank() != e || pp->rank() != p) return Error{ErrorCode::invalid_argument}.in("split");

    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const own = split_units(tokens, degrees.ep, e);
    auto const held = split_units(blocks, degrees.pp, p);
    Stage<C> stage{{}, &inputs, &answer, own, t == 0};
    for (auto block = held.begin; block < held.end; ++block) {
        auto part = BlockPart<C>::create(network.all[index(block)], context, *tp, *ep,
                                         split_units(tokens, degrees.ep, 0).size());
        if (!part) return part.error();
        stage.parts.push_back(std::move(*part));
    }
    auto pipeline =
        PipelineParallel<Host, C>::create(context, *pp, forward_only(degrees.pp, micro_batches), {own.size(), width});
    if (!pipeline) return pipeline.error();
    if (auto const ran = pipeline->run(stage, stream, soon()); !ran) return ran;
    for (auto const& part : stage.parts) answer.pairs += part.pairs();
    return {};
}

std::vector<Floats> some_inputs() {
    std::vector<Floats> inputs;
    for (unsigned m = 0; m < micro_batches; ++m) inputs.push_back(random_floats(tokens * width, 1000 + m));
    return inputs;
}

void compute_on_threads(Network const& network, Degrees const& degrees, Answer& answer) {
    auto const done = run_threads(degrees.tp * degrees.pp * degrees.ep, [&](Threads& comm) {
        return compute(comm, network, some_inputs(), degrees, answer);
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
}

void check_same(Answer const& answer, Answer const& whole, Degrees const& degrees) {
    CAPTURE(degrees.tp);
    CAPTURE(degrees.pp);
    CAPTURE(degrees.ep);
    CHECK(std::memcmp(answer.rows, whole.rows, sizeof whole.rows) == 0);
    CHECK(answer.pairs == degrees.tp * blocks * micro_batches * tokens * chosen);
}

TEST_CASE("TP x PP x EP: any combination gives the bits of one rank, each pair computed once per tensor rank") {
    Network const network;
    auto const inputs = some_inputs();
    SharedAnswer const whole;
    compute_on_threads(network, {}, *whole);
    // What it computes is not the input, and differs between micro-batches.
    CHECK(std::memcmp(whole->rows[0], inputs[0].data(), sizeof whole->rows[0]) != 0);
    CHECK(std::memcmp(whole->rows[0], whole->rows[1], sizeof whole->rows[0]) != 0);
    for (auto const& degrees : {Degrees{2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 2}, {3, 1, 2}, {1, 4, 2}, {2, 1, 3}}) {
        SharedAnswer const answer;
        compute_on_threads(network, degrees, *answer);
        check_same(*answer, *whole, degrees);
    }
}

TEST_CASE("TP x PP x EP: processes that share memory give the same bits") {
    Network const network;
    SharedAnswer const whole;
    compute_on_threads(network, {}, *whole);
    for (auto const& degrees : {Degrees{2, 2, 1}, {1, 2, 2}, {2, 2, 2}}) {
        SharedAnswer const answer;
        shared_memory::Body const body = [&](SharedMemory& comm) {
            return compute(comm, network, some_inputs(), degrees, *answer);
        };
        auto const ranks = static_cast<std::size_t>(degrees.tp * degrees.pp * degrees.ep);
        for (auto const& outcome : shared_memory::run_ranks(std::vector<shared_memory::Body>(ranks, body)))
            CHECK_MESSAGE(outcome.succeeded, outcome.message);
        check_same(*answer, *whole, degrees);
    }
}

}  // namespace
