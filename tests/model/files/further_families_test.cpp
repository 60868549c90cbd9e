// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/config_json.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

namespace {

Result<ConfigFile> read(std::string const& type, std::string const& more) {
    return read_config("{\"model_type\": \"" + type + "\", \"num_hidden_layers\": 8" + more + "}", "config.json");
}

std::string place_of_refusal(std::string const& type, std::string const& more) {
    auto const file = read(type, more);
    return file ? "taken" : std::string(file.error().place());
}

}  // namespace

TEST_CASE("read_config: granite's factors are read, and refused where they would leave nothing") {
    auto const file = read("granite", R"(, "embedding_multiplier": 12.0, "residual_multiplier": 0.22,
                                         "attention_multiplier": 0.0078125, "logits_scaling": 16.0)");
    REQUIRE(file);
    CHECK(file->config.embedding_scale == 12.0);
    CHECK(file->config.residual_scale == 0.22);
    CHECK(file->config.score_scale == 0.0078125);
    CHECK(file->config.logit_scale == 16.0);
    CHECK(place_of_refusal("granite", R"(, "logits_scaling": 0.0)") == "logits_scaling");
    CHECK(place_of_refusal("granite", R"(, "attention_multiplier": 0.0)") == "attention_multiplier");
}

// The published EXAONE-4.0-32B says sliding_window_pattern "LLLG".
TEST_CASE("read_config: exaone4's pattern may be letters, an L for each layer before the full one") {
    auto const file = read("exaone4", R"(, "sliding_window": 64, "sliding_window_pattern": "LLLG")");
    REQUIRE(file);
    CHECK(file->config.sliding_pattern == 4);
    auto const model = describe(file->config);
    REQUIRE(model);
    for (std::int64_t layer = 0; layer < 8; ++layer) {
        CHECK(model->config.sliding_layers.contains(layer) == (layer % 4 != 3));
        CHECK(model->config.rope_free_layers.contains(layer) == (layer % 4 == 3));
    }
    for (auto const* const pattern : {"LGLG", "", "LLL", "G L"})
        CHECK(place_of_refusal("exaone4", ", \"sliding_window_pattern\": \"" + std::string(pattern) + "\"") ==
              "sliding_window_pattern");
}

// transformers 4.57 configuration_apertus.py: the default of rope_scaling.
TEST_CASE("read_config: apertus turns as llama3 unless its config says otherwise") {
    auto const absent = read("apertus", "");
    REQUIRE(absent);
    auto const model = describe(absent->config);
    REQUIRE(model);
    CHECK(model->config.rope.kind == RopeKind::llama3);
    CHECK(model->config.rope.factor == 8.0);
    CHECK(model->config.rope.original_max_positions == 8192);
    auto const none = read("apertus", R"(, "rope_scaling": null)");
    REQUIRE(none);
    CHECK(describe(none->config)->config.rope.kind == RopeKind::standard);
}

TEST_CASE("describe: xielu is the activation of an MLP without a gate, and refused by name in others") {
    for (auto const* const family : {"llama", "gpt2", "mixtral"}) {
        CAPTURE(family);
        auto const key = std::string(family) == "gpt2" ? "activation_function" : "hidden_act";
        auto const file = read(family, ", \"" + std::string(key) + "\": \"xielu\"");
        REQUIRE(!file);
        CHECK(file.error().code() == ErrorCode::unsupported);
        CHECK(file.error().message().find("xielu") != std::string::npos);
    }
}
