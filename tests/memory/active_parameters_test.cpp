// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/active_parameters.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

double billions(ModelConfig const& config) {
    auto const model = *describe(config);
    return static_cast<double>(count_active_parameters(model.tree, model.config)) / 1e9;
}

}  // namespace

// Model cards: Mixtral-8x7B 12.9B active, Qwen3-30B-A3B 3.3B, Qwen3-235B-A22B 22B, DeepSeek-V3 37B, DeepSeek-V2 21B,
// DeepSeek-V2-Lite 2.4B (of which the card leaves out the tables), Mixtral-8x22B 39B
TEST_CASE("active parameters: what model cards say, tables included") {
    CHECK(billions(presets::mixtral_8x7b) == doctest::Approx(12.9).epsilon(0.002));
    CHECK(billions(presets::mixtral_8x22b) == doctest::Approx(39.2).epsilon(0.002));
    CHECK(billions(presets::qwen3_30b_a3b) == doctest::Approx(3.35).epsilon(0.002));
    CHECK(billions(presets::qwen3_235b_a22b) == doctest::Approx(22.2).epsilon(0.002));
    CHECK(billions(presets::deepseek_v2) == doctest::Approx(21.4).epsilon(0.002));
    CHECK(billions(presets::deepseek_v3) == doctest::Approx(37.55).epsilon(0.002));
}

TEST_CASE("active parameters: of the experts only the chosen ones, everything else whole") {
    std::int64_t const experts = 32LL * 8 * 3 * 4096 * 14336;
    auto const model = *describe(presets::mixtral_8x7b);
    CHECK(count_active_parameters(model.tree, model.config) == 46702792704 - experts + experts / 8 * 2);
}

TEST_CASE("active parameters: stacked experts count like lists of them") {
    // gpt-oss-120b: 5.1B active by its card, which leaves out the embedding (201088 x 2880); 36 layers, 4 of 128
    // experts.
    auto const model = *describe(presets::gpt_oss_120b);
    auto const active = count_active_parameters(model.tree, model.config);
    CHECK(static_cast<double>(active - 201088LL * 2880) / 1e9 == doctest::Approx(5.13).epsilon(0.002));
}

TEST_CASE("active parameters: a dense model uses all of its own") {
    auto const model = *describe(presets::llama_3_8b);
    CHECK(count_active_parameters(model.tree, model.config) == 8030261248);
}
