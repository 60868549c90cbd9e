// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends.hpp"

#include <shardwise/executor/device_kernels.hpp>

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/session/device_token_chooser.hpp>
#include <shardwise/session/session.hpp>

#include "../executor/formula_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// What a back end has at hand for one rank: threads of the host beside its own context and stream.
template <class B>
struct RankMachine {
    HostContext host{HostOptions{.threads = 1}};
    std::unique_ptr<typename B::Context> own;
    RankHome<B> home;
    typename B::Stream stream;

    explicit RankMachine(std::unique_ptr<typename B::Context> context)
        : own(std::move(context)), home{host, *own}, stream(own->make_stream()) {}
};
template <>
struct RankMachine<Host> {
    HostContext host{HostOptions{.threads = 1}};
    RankHome<Host> home{host};
    HostStream stream{host.make_stream()};

    explicit RankMachine(std::unique_ptr<HostContext>) {}
};

/// What requests became on some ranks.
struct RanModel {
    std::vector<Generation> generations;
    std::map<std::int64_t, std::vector<std::vector<float>>> logits;
    Bytes predicted{};
    Bytes held{};
};

template <class B, class Policy>
Result<RanModel> run_model(Model const& model, ModelSource const& source, std::vector<GenerationRequest> const& requests,
                           ExecutorLimits const& limits, std::int32_t ranks, bool shows_logits = true,
                           LoadOptions const& load = {}) {
    auto const parameters = StoredParameters::open(source, model);
    if (!parameters) return parameters.error();
    RanModel out;
    auto const done = run_threads(ranks, [&](Threads& threads) -> Result<> {
        HostCommunicator comm(std::move(threads));
        auto context = open_context<B>();
        if (!context) return context.error();
        RankMachine<B> machine(std::move(*context));
        auto& memory = machine.home.context.memory();
        TensorPlace const place{comm.size(), comm.rank()};
        auto const predicted = predict_memory<B, Policy>(model, formats_of(*parameters, load), place, limits,
                                                         IsaLevel::portable);
        if (!predicted) return predicted.error();
        auto executor = RankExecutor<B, Policy>::create(machine.home, model, *parameters, place, limits, {}, load);
        if (!executor) return executor.error();
        if (!HasHostMemory<B>) {
            CHECK(memory.current() == predicted->total());
            CHECK(executor->weight_bytes() == predicted->weights);
            CHECK(executor->cache_bytes() == predicted->kv_cache);
        }
        if (comm.rank() == 0) {
            out.predicted = predicted->total();
            out.held = memory.current();
        }
        auto session =
            Session<B, Policy, HostCommunicator>::create(machine.home, *executor, limits, comm, machine.stream);
        if (!session) return session.error();
        for (auto const& request : requests) {
            if (auto const added = session->add(request); !added) return added.error();
        }
        if (comm.rank() == 0 && shows_logits) {
            session->show_logits([&](std::int64_t request, std::span<float const> logits) {
                out.logits[request].emplace_back(logits.begin(), logits.end());
            });
        }
        auto const generations = session->run(Deadline::after(std::chrono::minutes(4)));
        if (!generations) return generations.error();
        if (comm.rank() == 0) out.generations = *generations;
        return {};
    });
    if (!done) return done.error();
    return out;
}

/// A tiny model whose weights are a formula, and three requests of unlike lengths.
[[nodiscard]] inline std::vector<GenerationRequest> model_requests(std::int64_t more) {
    std::vector<GenerationRequest> all(3);
    all[0].prompt = {5, 9, 2};
    all[1].prompt = {7, 7, 1, 7, 7, 3, 7, 7, 40, 7, 11, 7, 7, 2, 7, 8, 7, 7};
    all[2].prompt = {30};
    for (auto& one : all) one.max_new_tokens = more;
    return all;
}

inline constexpr auto tiny_llama =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":48,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("max_position_embeddings":64})";

/// The same tokens as the host's, from logits as near as sums in another order are.
template <class B, class Policy>
void check_model(char const* config, std::int32_t ranks, ExecutorLimits const& limits, std::int64_t more) {
    FormulaModel const model(config);
    auto const requests = model_requests(more);
    auto const& described = model.checkpoint->model;
    auto const expected = run_model<Host, Policy>(described, model.source, requests, limits, 1);
    REQUIRE_MESSAGE(expected, (expected ? "" : expected.error().message()));
    auto const found = run_model<B, Policy>(described, model.source, requests, limits, ranks);
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    REQUIRE(found->generations.size() == requests.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
        CHECK(found->generations[i].tokens == expected->generations[i].tokens);
        auto const number = static_cast<std::int64_t>(i);
        auto const& theirs = expected->logits.at(number);
        auto const& ours = found->logits.at(number);
        REQUIRE(ours.size() == theirs.size());
        for (std::size_t step = 0; step < ours.size(); ++step) {
            for (std::size_t k = 0; k < ours[step].size(); ++k)
                worst = std::max(worst, static_cast<double>(std::abs(ours[step][k] - theirs[step][k])));
        }
    }
    CAPTURE(worst);
    CHECK(worst < 1e-4);
    // Greedy tokens that are found where the logits lie.
    auto const quiet = run_model<B, Policy>(described, model.source, requests, limits, ranks, false);
    REQUIRE_MESSAGE(quiet, (quiet ? "" : quiet.error().message()));
    for (std::size_t i = 0; i < requests.size(); ++i)
        CHECK(quiet->generations[i].tokens == expected->generations[i].tokens);
}

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Models: a tiny llama generates the host's tokens on every back end", B, SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_context<B>()) return;
    testing::check_model<B, Fast>(testing::tiny_llama, 1,
                                  {.sequences = 3, .context = 32, .step_tokens = 8}, 3);
}
