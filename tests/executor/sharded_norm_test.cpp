// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/memory/estimator.hpp>

#include <doctest/doctest.h>

#include "golden_models.hpp"
#include "loaded_model.hpp"
#include "olmo2.hpp"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// The model of a golden case, described by a family of this test, and its weights.
template <class Family>
struct Olmo2Model {
    TemporaryFolder folder;
    ModelSource source;
    Model model;

    explicit Olmo2Model(GoldenCase const& one) {
        auto const document = parse_json(one.config);
        REQUIRE(document);
        auto const number = [&](std::string_view key) { return *document->root().find(key)->integer(); };
        ModelConfig config;
        for (auto const& field : Family::fields) field.store_default(config);
        config.model_class = "Olmo2ForCausalLM";
        config.vocab_size = number("vocab_size");
        config.hidden_size = number("hidden_size");
        config.intermediate_size = number("intermediate_size");
        config.layers = number("num_hidden_layers");
        config.heads = number("num_attention_heads");
        config.kv_heads = number("num_key_value_heads");
        config.max_positions = number("max_position_embeddings");
        auto described = describe<Family>(config);
        REQUIRE_MESSAGE(described, (described ? "" : described.error().message()));
        model = std::move(*described);
        write_formula_model(model, folder / "model.safetensors", one.seed);
        source = weights_in(folder, SourceKind::safetensors, "model.safetensors");
    }
};

/// The logits after each of a golden case's numbers of tokens, over tp x pp ranks: all but the last in one step, then single tokens.
template <class Policy, class Family>
std::vector<std::vector<float>> compute(Olmo2Model<Family> const& model, GoldenCase const& one, std::int32_t tp,
                                        std::int32_t pp = 1) {
    auto const parameters = StoredParameters::open(model.source, model.model);
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    auto const begins = even_stages(model.model, tp, pp);
    REQUIRE(begins);
    auto const stages = blocks_of_stages(model.model.program, *begins);
    auto const vocabulary = model.model.config.vocab_size;
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
        auto const predicted = predict_memory<Host, Policy>(model.model, formats_of(*parameters), {tp, rank % tp},
                                                            limits, *stream.isa(), {}, stage);
        if (!predicted) return predicted.error();
        auto executor = RankExecutor<Host, Policy>::create(context, model.model, *parameters, {tp, rank % tp}, limits,
                                                           {}, {}, stage);
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

std::vector<GoldenCase> cases() {
    std::vector<GoldenCase> out;
    read_golden_cases("sharded_norms", out);
    return out;
}

TEST_CASE("RankExecutor: a norm over all heads gives transformers' logits within 1e-4 over tp x pp ranks") {
    for (auto const& one : cases()) {
        CAPTURE(one.name);
        Olmo2Model<Olmo2> const model(one);
        for (std::int32_t const tp : {1, 2, 3, 4}) {
            for (std::int32_t const pp : {1, 2}) {
                CAPTURE(tp);
                CAPTURE(pp);
                auto const logits = compute<Fast>(model, one, tp, pp);
                REQUIRE(logits.size() == one.logits.size());
                for (std::size_t i = 0; i < logits.size(); ++i) CHECK(worst(logits[i], one.logits[i].second) < 1e-4);
            }
        }
    }
}

TEST_CASE("RankExecutor: under Deterministic a norm over all heads has the bits of one rank") {
    for (auto const& one : cases()) {
        CAPTURE(one.name);
        Olmo2Model<Olmo2> const model(one);
        auto const alone = compute<Deterministic>(model, one, 1);
        REQUIRE(alone.size() == one.logits.size());
        for (std::size_t i = 0; i < alone.size(); ++i) CHECK(worst(alone[i], one.logits[i].second) < 1e-4);
        for (std::int32_t const tp : {2, 3, 4, 6}) {
            CAPTURE(tp);
            CHECK(compute<Deterministic>(model, one, tp) == alone);
        }
        CHECK(compute<Deterministic>(model, one, 3, 2) == alone);
    }
}

TEST_CASE("RankExecutor: norms of the heads' results and of gated columns are those of one rank") {
    for (auto const& one : cases()) {
        CAPTURE(one.name);
        Olmo2Model<Olmo2Norms<true>> const model(one);
        auto const fast = compute<Fast>(model, one, 1);
        auto const fixed = compute<Deterministic>(model, one, 1);
        for (std::int32_t const tp : {2, 3, 4}) {
            CAPTURE(tp);
            auto const logits = compute<Fast>(model, one, tp);
            for (std::size_t i = 0; i < logits.size(); ++i) CHECK(worst(logits[i], fast[i]) < 1e-4);
            CHECK(compute<Deterministic>(model, one, tp) == fixed);
        }
        for (std::size_t i = 0; i < fast.size(); ++i) CHECK(worst(fixed[i], fast[i]) < 1e-4);
    }
}

}  // namespace
