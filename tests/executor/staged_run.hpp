// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/model/files/model_source.hpp>

#include <doctest/doctest.h>

#include "golden_models.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shardwise::testing {

/// The logits after each of a golden case's numbers of tokens, over tp x pp ranks: all but the last in one step, then single tokens.
template <class Policy>
std::vector<std::vector<float>> run_stages(Model const& model, ModelSource const& source, GoldenCase const& one,
                                           std::int32_t tp, std::int32_t pp = 1, LoadOptions const& options = {}) {
    auto const parameters = StoredParameters::open(source, model);
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    auto const begins = even_stages(model, tp, pp);
    REQUIRE(begins);
    auto const stages = blocks_of_stages(model.program, *begins);
    auto const vocabulary = model.config.vocab_size;
    std::vector<std::vector<float>> out;
    auto const done = run_threads(tp * pp, [&](Threads& world) -> Result<> {
        auto const rank = world.rank();
        auto group = world.split(rank / tp);
        if (!group) return group.error();
        StageLinks<Threads> const links{&world, rank < tp ? -1 : rank - tp, rank + tp < world.size() ? rank + tp : -1};
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto const& stage = stages[static_cast<std::size_t>(rank / tp)];
        ExecutorLimits limits{.sequences = 1, .context = 32, .step_tokens = 16};
        auto const predicted = predict_memory<Host, Policy>(model, formats_of(*parameters, options), {tp, rank % tp},
                                                            limits, *stream.isa(), {}, stage);
        if (!predicted) return predicted.error();
        auto executor = RankExecutor<Host, Policy>::create(context, model, *parameters, {tp, rank % tp}, limits, {},
                                                           options, stage);
        if (!executor) return executor.error();
        CHECK(executor->weight_bytes() == predicted->weights);
        CHECK(executor->activation_bytes() == predicted->activations + predicted->scratch);
        std::vector<float> logits(static_cast<std::size_t>(vocabulary));
        TensorView<float, 2, Host> const view(logits.data(), {1, vocabulary});
        std::int64_t past = 0;
        for (auto const& [after, expected] : one.logits) {
            auto const step = after == one.logits.back().first ? 1 : after - past;
            while (past < after) {
                SequencePart const part{0, past, step};
                std::span<std::int32_t const> const ids(one.ids.data() + past, static_cast<std::size_t>(step));
                if (auto const ran = executor->forward(ids, {&part, 1}, view, *group, stream, links); !ran) return ran;
                if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(60))); !ended)
                    return ended;
                past += step;
            }
            if (rank == world.size() - 1) out.push_back(logits);
        }
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

}  // namespace shardwise::testing
