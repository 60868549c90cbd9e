// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/rank_executor.hpp>

#include <doctest/doctest.h>

#include "golden_models.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// What each of some groups makes of a sequence of its own, in steps of five tokens: the logits after each step.
template <class Policy>
std::vector<std::vector<float>> compute_groups(FormulaModel const& model,
                                               std::vector<std::vector<std::int32_t>> const& sequences,
                                               std::int32_t tp) {
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    auto const vocabulary = model.checkpoint->model.config.vocab_size;
    auto const groups = static_cast<std::int32_t>(sequences.size());
    std::size_t steps = 0;
    for (auto const& sequence : sequences) steps = std::max(steps, (sequence.size() + 4) / 5);
    std::vector<std::vector<float>> out(sequences.size());
    auto const done = run_threads(groups * tp, [&](Threads& world) -> Result<> {
        auto const group = world.rank() / tp;
        auto const member = world.rank() % tp;
        auto comm = world.split(group);
        if (!comm) return comm.error();
        auto peers = world.split(member);
        if (!peers) return peers.error();
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor =
            RankExecutor<Host, Policy>::create(context, model.checkpoint->model, *parameters, {tp, member},
                                               {.sequences = 1, .context = 32, .step_tokens = 5}, {groups, group});
        if (!executor) return executor.error();
        auto exchange = executor->make_exchange(RankHome<Host>(context), *peers);
        if (!exchange) return exchange.error();
        auto const& ids = sequences[static_cast<std::size_t>(group)];
        std::vector<float> logits(static_cast<std::size_t>(vocabulary));
        for (std::size_t step = 0; step < steps; ++step) {
            auto const past = std::min(step * 5, ids.size());
            auto const count = std::min<std::size_t>(5, ids.size() - past);
            SequencePart const part{0, static_cast<std::int64_t>(past), static_cast<std::int64_t>(count)};
            TensorView<float, 2, Host> const view(logits.data(), {1, vocabulary});
            auto const ran = count > 0 ? executor->forward(std::span(ids).subspan(past, count), {&part, 1}, view, *comm,
                                                           &*exchange, stream)
                                       : executor->join_step(*comm, *exchange, stream);
            if (!ran) return ran;
            if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
            auto& made = out[static_cast<std::size_t>(group)];
            if (count > 0 && member == tp - 1) made.insert(made.end(), logits.begin(), logits.end());
        }
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

TEST_CASE(
    "RankExecutor: experts sharded over ranks with sequences of their own give the bits of one rank, for any (tp, ep)") {
    for (auto const& one : golden_cases()) {
        if (one.name != "deepseek_v3_experts" && one.name != "qwen2_moe_normed" && one.name != "gpt_oss") continue;
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
        auto other = one.ids;
        std::reverse(other.begin(), other.end());
        std::vector<std::vector<std::int32_t>> const sequences{
            one.ids, {other.begin(), other.begin() + 7}, {other.begin() + 2, other.begin() + 15}, {}};
        std::vector<std::vector<float>> alone;
        for (auto const& sequence : sequences) alone.push_back(compute_groups<Deterministic>(model, {sequence}, 1)[0]);
        for (auto const& degrees : {std::pair{1, 2}, {1, 4}, {2, 2}, {3, 3}}) {
            auto const tp = degrees.first;
            auto const ep = degrees.second;
            CAPTURE(tp);
            CAPTURE(ep);
            std::vector<std::vector<std::int32_t>> const some(sequences.begin(), sequences.begin() + ep);
            auto const groups = compute_groups<Deterministic>(model, some, tp);
            for (std::size_t i = 0; i < groups.size(); ++i) CHECK(groups[i] == alone[i]);
        }
        auto const fast = compute_groups<Fast>(model, {sequences[0], sequences[1]}, 2);
        for (std::size_t i = 0; i < fast.size(); ++i) CHECK(worst(fast[i], alone[i]) < 1e-4);
    }
}

TEST_CASE("RankExecutor: ranks that share experts are checked") {
    auto const& one =
        *std::find_if(golden_cases().begin(), golden_cases().end(), [](auto const& c) { return c.name == "mixtral"; });
    FormulaModel const model(one.config, one.seed);
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    ExecutorLimits const limits{.sequences = 1, .context = 8, .step_tokens = 4};
    auto const create = [&](TensorPlace experts) {
        return RankExecutor<Host, Fast>::create(context, model.checkpoint->model, *parameters, {}, limits, experts);
    };
    auto const too_many = create({6, 0});
    REQUIRE_FALSE(too_many);
    CHECK(too_many.error().message().find("more ranks than the model has experts") != std::string::npos);
    auto half = create({2, 1});
    REQUIRE(half);
    auto const whole = create({});
    REQUIRE(whole);
    CHECK(half->weight_bytes() < whole->weight_bytes());
    auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
        std::int32_t const ids[] = {1};
        SequencePart const part{0, 0, 1};
        std::vector<float> logits(97);
        TensorView<float, 2, Host> const view(logits.data(), {1, 97});
        auto const alone = half->forward(ids, {&part, 1}, view, comm, stream);
        REQUIRE_FALSE(alone);
        CHECK(alone.error().message().find("needs an exchange") != std::string::npos);
        CHECK_FALSE(half->make_exchange(RankHome<Host>(context), comm));
        return {};
    });
    CHECK(done);
}

TEST_CASE("RankExecutor: what a sequence of a model with experts becomes does not depend on the batch") {
    for (auto const& one : golden_cases()) {
        if (one.name != "qwen2_moe" && one.name != "gpt_oss") continue;
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
        auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
        REQUIRE(parameters);
        // The same tokens in slot 1, beside those of another sequence in slot 0 or alone.
        auto const behind = [&](std::int64_t others) {
            std::vector<float> logits(2 * 97);
            auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
                HostContext context({.threads = 1});
                auto stream = context.make_stream();
                auto executor =
                    RankExecutor<Host, Deterministic>::create(context, model.checkpoint->model, *parameters, {},
                                                              {.sequences = 2, .context = 32, .step_tokens = 32});
                if (!executor) return executor.error();
                std::vector<std::int32_t> ids(one.ids.begin(), one.ids.begin() + others);
                ids.insert(ids.end(), one.ids.begin(), one.ids.begin() + 9);
                std::vector<SequencePart> parts{{1, 0, 9}};
                if (others > 0) parts.insert(parts.begin(), {0, 0, others});
                TensorView<float, 2, Host> const view(logits.data(), {static_cast<std::int64_t>(parts.size()), 97});
                if (auto const ran = executor->forward(ids, parts, view, comm, stream); !ran) return ran;
                return stream.synchronize(Deadline::after(std::chrono::seconds(20)));
            });
            CHECK_MESSAGE(done, (done ? "" : done.error().message()));
            return std::vector<float>(logits.begin() + (others > 0 ? 97 : 0), logits.begin() + (others > 0 ? 194 : 97));
        };
        CHECK(behind(0) == behind(13));
    }
}

TEST_CASE("RankExecutor: experts' rows that ranks sum in parts give the bits of one rank") {
    // 96 tokens with 3 experts each: more than one shot of 16 Ki elements.
    FormulaModel const model(
        R"({"model_type":"mixtral","vocab_size":31,"hidden_size":72,"intermediate_size":40,"num_hidden_layers":1,)"
        R"("num_attention_heads":6,"num_key_value_heads":2,"num_local_experts":4,"num_experts_per_tok":3})");
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    auto const behind = [&](std::int32_t ranks) {
        std::vector<float> out;
        auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
            HostContext context({.threads = 1});
            auto stream = context.make_stream();
            auto executor = RankExecutor<Host, Deterministic>::create(
                context, model.checkpoint->model, *parameters, {comm.size(), comm.rank()},
                {.sequences = 1, .context = 96, .step_tokens = 96});
            if (!executor) return executor.error();
            std::vector<std::int32_t> ids(96);
            for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 31);
            SequencePart const part{0, 0, 96};
            std::vector<float> logits(31);
            TensorView<float, 2, Host> const view(logits.data(), {1, 31});
            if (auto const ran = executor->forward(ids, {&part, 1}, view, comm, stream); !ran) return ran;
            if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
            if (comm.rank() == 0) out = logits;
            return {};
        });
        CHECK_MESSAGE(done, (done ? "" : done.error().message()));
        return out;
    };
    CHECK(behind(3) == behind(1));
}

}  // namespace
