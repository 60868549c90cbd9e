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

// Model cards: Mixtral-8x7B 12.9B active, Mixtral-8x22B 39B, Qwen3-30B-A3B 3.3B, Qwen3-235B-A22B 22B, which count the
// embedding; DeepSeek-V3 37B (36.6B with the head: README_WEIGHTS.md), DeepSeek-V2 21B, DeepSeek-V2-Lite 2.4B,
// gpt-oss-120b 5.13B, gpt-oss-20b 3.61B (arXiv 2508.10925, table 1), which leave it out.
TEST_CASE("active parameters: what model cards say, the embedding as each publisher counts it") {
    CHECK(billions(presets::mixtral_8x7b) == doctest::Approx(12.88).epsilon(0.0005));
    CHECK(billions(presets::mixtral_8x22b) == doctest::Approx(39.2).epsilon(0.002));
    CHECK(billions(presets::qwen3_30b_a3b) == doctest::Approx(3.353).epsilon(0.0005));
    CHECK(billions(presets::qwen3_235b_a22b) == doctest::Approx(22.2).epsilon(0.002));
    CHECK(billions(presets::deepseek_v3) == doctest::Approx(36.62).epsilon(0.0005));
    CHECK(billions(presets::deepseek_v2) == doctest::Approx(20.85).epsilon(0.0005));
    CHECK(billions(presets::deepseek_v2_lite) == doctest::Approx(2.45).epsilon(0.01));
    CHECK(billions(presets::gpt_oss_120b) == doctest::Approx(5.13).epsilon(0.001));
    CHECK(billions(presets::gpt_oss_20b) == doctest::Approx(3.61).epsilon(0.001));
}

TEST_CASE("active parameters: an embedding that is the head too counts once") {
    auto config = presets::gpt_oss_20b;
    auto const untied = billions(config);
    config.tie_word_embeddings = true;
    CHECK(billions(config) == doctest::Approx(untied).epsilon(1e-12));
}

TEST_CASE("active parameters: of the experts only the chosen ones, everything else whole") {
    std::int64_t const experts = 32LL * 8 * 3 * 4096 * 14336;
    auto const model = *describe(presets::mixtral_8x7b);
    CHECK(count_active_parameters(model.tree, model.config) == 46702792704 - experts + experts / 8 * 2);
}

TEST_CASE("active parameters: stacked experts count like lists of them") {
    // gpt-oss-120b: 36 layers, of 128 experts 4; each has [2880, 5760] and [2880, 2880] with biases.
    auto const model = *describe(presets::gpt_oss_120b);
    std::int64_t const expert = 2880LL * 5760 + 5760 + 2880LL * 2880 + 2880;
    CHECK(count_active_parameters(model.tree, model.config) ==
          count_parameters(model.tree) - 36 * 124 * expert - 201088LL * 2880);
}

TEST_CASE("active parameters: a dense model uses all of its own") {
    auto const model = *describe(presets::llama_3_8b);
    CHECK(count_active_parameters(model.tree, model.config) == 8030261248);
}
