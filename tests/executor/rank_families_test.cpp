// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "golden_models.hpp"
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
    for (auto const* const name : {"families", "layouts", "newer", "text_parts", "states"}) read_golden_cases(name, out);
    return out;
}

// transformers 4.57 (scripts/golden/executor_families.py, executor_layouts.py), 5.23 (executor_newer.py). Of
// whole models of text and images it is what they say of text alone (executor_text_parts.py).
TEST_CASE("RankExecutor: further families give transformers' logits within 1e-4 over tp x pp ranks") {
    for (auto const& one : cases()) {
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
        for (auto const& degrees : {std::pair{1, 1}, std::pair{2, 1}, std::pair{3, 1}, std::pair{1, 2}}) {
            CAPTURE(degrees.first);
            CAPTURE(degrees.second);
            auto const logits =
                run_stages<Fast>(model.checkpoint->model, model.source, one, degrees.first, degrees.second);
            REQUIRE(logits.size() == one.logits.size());
            for (std::size_t i = 0; i < logits.size(); ++i) CHECK(worst(logits[i], one.logits[i].second) < 1e-4);
        }
    }
}

TEST_CASE("RankExecutor: under Deterministic further families have the bits of one rank") {
    for (auto const& one : cases()) {
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
        auto const alone = run_stages<Deterministic>(model.checkpoint->model, model.source, one, 1);
        REQUIRE(alone.size() == one.logits.size());
        for (std::size_t i = 0; i < alone.size(); ++i) CHECK(worst(alone[i], one.logits[i].second) < 1e-4);
        for (std::int32_t const tp : {2, 3})
            CHECK(run_stages<Deterministic>(model.checkpoint->model, model.source, one, tp) == alone);
        CHECK(run_stages<Deterministic>(model.checkpoint->model, model.source, one, 2, 2) == alone);
    }
}

}  // namespace
