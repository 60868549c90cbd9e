// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include <doctest/doctest.h>

#include "../executor/formula_model.hpp"
#include "../executor/translations.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// Greedy requests of all sources, which end where transformers' do.
std::vector<GenerationRequest> requests_of(Translation const& one, std::int32_t end) {
    std::vector<GenerationRequest> requests;
    for (auto const& source : one.sources)
        requests.push_back({.prompt = source, .max_new_tokens = 12, .stop_tokens = {end}});
    return requests;
}

TEST_CASE("run_on_threads: a decoder that reads an encoder makes transformers' tokens, over any ranks and stages") {
    for (auto const& one : translations()) {
        CAPTURE(one.name);
        auto const end = one.name == "t5_gated" ? 48 : 1;
        FormulaModel const model(one.config, one.seed);
        auto expected = one.tokens;
        for (auto& tokens : expected) {
            if (tokens.back() == end) tokens.pop_back();
        }
        std::vector<float> bits;
        for (auto const& degrees :
             {std::pair{1, 1}, std::pair{2, 1}, std::pair{3, 1}, std::pair{1, 2}, std::pair{1, 3}, std::pair{2, 2}}) {
            auto const tp = degrees.first;
            auto const pp = degrees.second;
            CAPTURE(tp);
            CAPTURE(pp);
            if (pp > model.checkpoint->model.config.layers + 1) continue;
            RunOptions options{.tp = tp, .pp = pp, .threads = 2, .is_deterministic = true, .sequences = 2};
            // Sources are longer than a step of a decoder alone would be.
            options.step_tokens = 4;
            std::vector<std::vector<float>> logits(one.sources.size());
            options.on_logits = [&](std::int64_t request, std::span<float const> row) {
                auto& to = logits[static_cast<std::size_t>(request)];
                to.insert(to.end(), row.begin(), row.end());
            };
            auto const ran = run_on_threads(model.source, model.checkpoint->model, requests_of(one, end), options);
            REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
            for (std::size_t i = 0; i < expected.size(); ++i) CHECK(ran->generations[i].tokens == expected[i]);
            std::vector<float> all;
            for (auto const& rows : logits) all.insert(all.end(), rows.begin(), rows.end());
            if (bits.empty()) bits = all;
            CHECK(all == bits);
            for (auto const& rank : ran->ranks) {
                CHECK(rank.peak == rank.predicted);
            }
        }
    }
}

TEST_CASE("run_on_threads: a decoder without a first token is refused by name") {
    auto config = translations().back().config;
    std::string const start = "\"decoder_start_token_id\": 5";
    REQUIRE(config.find(start) != std::string::npos);
    FormulaModel const model(config.replace(config.find(start), start.size(), "\"decoder_start_token_id\": null"));
    auto const ran = run_on_threads(model.source, model.checkpoint->model, {{.prompt = {3, 4}}}, {.threads = 1});
    REQUIRE_FALSE(ran);
    CHECK(ran.error().code() == ErrorCode::missing_field);
    CHECK(ran.error().message().find("decoder_start_token_id") != std::string::npos);
}

TEST_CASE("run_on_threads: a prompt that an encoder has no context for is refused") {
    auto const one = translations().front();
    FormulaModel const model(one.config, one.seed);
    auto const ran = run_on_threads(model.source, model.checkpoint->model, requests_of(one, 1), {.context = 16});
    REQUIRE_FALSE(ran);
    CHECK(ran.error().message().find("longer than the context") != std::string::npos);
}

}  // namespace
