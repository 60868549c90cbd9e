// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/memory/estimator.hpp>

#include <doctest/doctest.h>

#include "golden_models.hpp"
#include "loaded_model.hpp"
#include "olmo2.hpp"
#include "staged_run.hpp"

#include <cstdint>
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

template <class Policy, class Family>
std::vector<std::vector<float>> compute(Olmo2Model<Family> const& model, GoldenCase const& one, std::int32_t tp,
                                        std::int32_t pp = 1) {
    return run_stages<Policy>(model.model, model.source, one, tp, pp);
}

std::vector<GoldenCase> cases() {
    std::vector<GoldenCase> out;
    read_golden_cases("sharded_norms", out);
    return out;
}

TEST_CASE("RankExecutor: a norm over all heads gives transformers' logits within 1e-4 over tp x pp ranks") {
    for (auto const& one : cases()) {
        CAPTURE(one.name);
        Olmo2Model<OwnOlmo2> const model(one);
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
        Olmo2Model<OwnOlmo2> const model(one);
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
