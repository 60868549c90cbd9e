// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/memory/estimator.hpp>

#include <doctest/doctest.h>

#include "golden_models.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

struct Run {
    std::int64_t batch;
    std::int64_t context;
    std::int64_t chunk;
};

/// Holds the estimate of each rank against what the executor's rank will lay out.
template <class Policy>
void check_activations(Model const& model, std::int64_t tp, Run const& run) {
    CAPTURE(tp);
    CAPTURE(run.chunk);
    EstimateRequest const request{.dtype = Dtype::f32,
                                  .kv_dtype = Dtype::f32,
                                  .batch = run.batch,
                                  .context = run.context,
                                  .parallel = {.tp = tp},
                                  .prefill_chunk = run.chunk};
    auto const estimate = estimate_memory(model, request);
    REQUIRE_MESSAGE(estimate, (estimate ? "" : estimate.error().message()));
    auto const all = run.batch * run.context;
    ExecutorLimits const limits{.sequences = run.batch,
                                .context = run.context,
                                .step_tokens = is_bidirectional(model) ? all : std::min(run.chunk, all)};
    FormatOf const in_fp32 = [](std::string const&) -> Result<ParameterFormat> { return ParameterFormat{}; };
    for (std::int32_t rank = 0; rank < tp; ++rank) {
        CAPTURE(rank);
        TensorPlace const place{static_cast<std::int32_t>(tp), rank};
        auto const predicted = predict_memory<Host, Policy>(model, in_fp32, place, limits, IsaLevel::portable);
        REQUIRE_MESSAGE(predicted, (predicted ? "" : predicted.error().message()));
        auto const& counted = estimate->devices[static_cast<std::size_t>(rank)].terms.activations;
        CHECK(counted.count() == predicted->activations.count());
    }
}

TEST_CASE(
    "estimate_memory: activations of a chunk are those that the executor lays out, of every family at tp 1 to 4") {
    std::set<std::string> families;
    for (auto const& entry :
         std::filesystem::directory_iterator(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/configs")) {
        auto const name = entry.path().filename().string();
        if (!name.starts_with("small-")) continue;
        CAPTURE(name);
        ModelSource source;
        source.kind = SourceKind::config;
        source.config = entry.path().string();
        auto const read = read_checkpoint(source);
        REQUIRE_MESSAGE(read, (read ? "" : read.error().message()));
        families.insert(std::string(read->model.config.model_type.view()));
        for (std::int64_t tp = 1; tp <= std::min<std::int64_t>(4, read->model.config.heads); ++tp) {
            for (auto const& run : {Run{2, 80, 40}, Run{1, 33, 512}, Run{3, 100, 32}, Run{5, 20, 3}})
                check_activations<Fast>(read->model, tp, run);
        }
        // With more ranks Deterministic cuts a width into 64 leaves (leaf_pieces), the estimate into its columns.
        check_activations<Deterministic>(read->model, 1, {2, 80, 40});
    }
    CHECK(families.size() >= 43);
}

/// The last logits of a golden case's tokens, computed in steps of at most `chunk`.
template <class Policy>
std::vector<float> last_logits(FormulaModel const& model, GoldenCase const& one, std::int32_t ranks,
                               std::int64_t chunk) {
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    std::vector<float> out;
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Policy>::create(context, model.checkpoint->model, *parameters,
                                                           {comm.size(), comm.rank()},
                                                           {.sequences = 1, .context = 32, .step_tokens = chunk});
        if (!executor) return executor.error();
        std::vector<float> logits(static_cast<std::size_t>(model.checkpoint->model.config.vocab_size));
        TensorView<float, 2, Host> const view(logits.data(), {1, model.checkpoint->model.config.vocab_size});
        auto const count = one.logits.back().first;
        for (std::int64_t past = 0; past < count; past += chunk) {
            SequencePart const part{0, past, std::min(chunk, count - past)};
            std::span<std::int32_t const> const ids(one.ids.data() + past, static_cast<std::size_t>(part.tokens));
            if (auto const ran = executor->forward(ids, {&part, 1}, view, comm, stream); !ran) return ran;
            if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
        }
        if (comm.rank() == 0) out = logits;
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

TEST_CASE("RankExecutor: under Deterministic no bit depends on the tokens of a step, under Fast no token") {
    auto const best = [](std::vector<float> const& logits) {
        return std::max_element(logits.begin(), logits.end()) - logits.begin();
    };
    for (auto const& one : golden_cases()) {
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
        auto const whole = last_logits<Deterministic>(model, one, 1, 32);
        REQUIRE_FALSE(whole.empty());
        for (std::int64_t const chunk : {1, 3, 7}) {
            CAPTURE(chunk);
            CHECK(last_logits<Deterministic>(model, one, chunk == 3 ? 2 : 1, chunk) == whole);
            auto const fast = last_logits<Fast>(model, one, 1, chunk);
            CHECK(worst(fast, whole) < 1e-4);
            CHECK(best(fast) == best(whole));
        }
    }
}

}  // namespace
