// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/rank_executor.hpp>

#include <doctest/doctest.h>

#include "golden_models.hpp"
#include "pair_sample.hpp"
#include "staged_run.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

std::vector<GoldenCase> cases() {
    std::vector<GoldenCase> out;
    for (auto const* const name : {"families", "layouts", "newer", "text_parts", "states"})
        read_golden_cases(name, out);
    return out;
}

// transformers 4.57 (scripts/golden/executor_families.py, executor_layouts.py), 5.23 (executor_newer.py). Of
// whole models of text and images it is what they say of text alone (executor_text_parts.py).
TEST_CASE("RankExecutor: further families give transformers' logits within 1e-4 over tp x pp ranks") {
    std::size_t round = 0;
    for (auto const& one : cases()) {
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
        std::size_t number = 0;
        ++round;
        for (auto const& degrees : {std::pair{1, 1}, std::pair{2, 1}, std::pair{3, 1}, std::pair{1, 2}}) {
            if (!takes_alternative(round, number++, 4)) continue;
            CAPTURE(degrees.first);
            CAPTURE(degrees.second);
            auto const logits =
                run_stages<Fast>(model.checkpoint->model, model.source, one, degrees.first, degrees.second);
            REQUIRE(logits.size() == one.logits.size());
            for (std::size_t i = 0; i < logits.size(); ++i) CHECK(worst(logits[i], one.logits[i].second) < 1e-4);
        }
    }
}

/// The logits of some sequences after each of their steps: together, or each with an executor of its own.
std::vector<std::vector<float>> run_sequences(FormulaModel const& model, std::vector<std::int32_t> const& ids,
                                              std::vector<std::vector<SequencePart>> const& steps) {
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    auto const vocabulary = model.checkpoint->model.config.vocab_size;
    std::vector<std::vector<float>> out;
    auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 2});
        auto stream = context.make_stream();
        auto executor =
            RankExecutor<Host, Fast>::create(context, model.checkpoint->model, *parameters, {1, 0},
                                             {.sequences = 4, .context = 64, .step_tokens = 64, .kv_dtype = Dtype::i8});
        if (!executor) return executor.error();
        for (auto const& parts : steps) {
            std::vector<std::int32_t> of_step;
            for (auto const& part : parts) {
                for (std::int64_t i = 0; i < part.tokens; ++i)
                    of_step.push_back(ids[static_cast<std::size_t>(part.slot + part.past + i) % ids.size()]);
            }
            auto const count = static_cast<std::int64_t>(parts.size());
            std::vector<float> logits(static_cast<std::size_t>(count * vocabulary));
            auto const ran = executor->forward(of_step, parts, {logits.data(), {count, vocabulary}}, comm, stream);
            if (!ran) return ran;
            for (std::int64_t i = 0; i < count; ++i)
                out.emplace_back(logits.begin() + i * vocabulary, logits.begin() + (i + 1) * vocabulary);
        }
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

TEST_CASE("RankExecutor: sequences of a step have the bits that each has alone, with latents, states and rotations") {
    auto all = cases();
    for (auto const* const name : {"latent", "logits"}) read_golden_cases(name, all);
    int seen = 0;
    for (auto const& one : all) {
        // The layers of gemma3, of which there are two cases, rotate by two bases.
        if (one.name != "deepseek_v2" && one.name != "deepseek_v3" && one.name != "kimi_k2" && one.name != "gemma3" &&
            !one.name.starts_with("qwen3_next"))
            continue;
        CAPTURE(one.name);
        ++seen;
        FormulaModel const model(one.config, one.seed);
        std::vector<SequencePart> const first{{2, 0, 37}, {0, 0, 3}, {3, 0, 1}};
        std::vector<SequencePart> const second{{0, 3, 1}, {3, 1, 20}, {1, 0, 5}, {2, 37, 2}};
        auto const together = run_sequences(model, one.ids, {first, second});
        REQUIRE(together.size() == 7);
        CHECK(together[0] == run_sequences(model, one.ids, {{first[0]}}).back());
        CHECK(together[3] == run_sequences(model, one.ids, {{first[1]}, {second[0]}}).back());
        CHECK(together[4] == run_sequences(model, one.ids, {{first[2]}, {second[1]}}).back());
        CHECK(together[5] == run_sequences(model, one.ids, {{second[2]}}).back());
        CHECK(together[6] == run_sequences(model, one.ids, {{first[0]}, {second[3]}}).back());
    }
    CHECK(seen == 8);
}

TEST_CASE("RankExecutor: under Deterministic further families have the bits of one rank") {
    std::size_t round = 0;
    for (auto const& one : cases()) {
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
        auto const alone = run_stages<Deterministic>(model.checkpoint->model, model.source, one, 1);
        REQUIRE(alone.size() == one.logits.size());
        for (std::size_t i = 0; i < alone.size(); ++i) CHECK(worst(alone[i], one.logits[i].second) < 1e-4);
        std::size_t number = 0;
        ++round;
        for (auto const& degrees : {std::pair{2, 1}, std::pair{3, 1}, std::pair{2, 2}}) {
            if (!takes_alternative(round, number++, 3)) continue;
            CAPTURE(degrees.first);
            CAPTURE(degrees.second);
            CHECK(run_stages<Deterministic>(model.checkpoint->model, model.source, one, degrees.first,
                                            degrees.second) == alone);
        }
    }
}

}  // namespace
