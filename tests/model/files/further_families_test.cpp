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
    CHECK(file->config.own["sliding_window_pattern"] == 4);
    auto const model = describe(file->config);
    REQUIRE(model);
    for (std::int64_t layer = 0; layer < 8; ++layer) {
        CHECK(model->config.local_layers.contains(layer) == (layer % 4 != 3));
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

// transformers 4.57: LlavaConfig and Mistral3Config take llama and mistral where text_config names no model_type, Qwen2VLConfig
// makes the text model of its own keys where there is no text_config.
TEST_CASE(
    "read_config: the text model of a whole one is found without its name, and without text_config where files lack "
    "it") {
    auto const type_of = [](std::string const& text) {
        auto const file = read_config(text, "config.json");
        REQUIRE_MESSAGE(file, (file ? "" : file.error().message()));
        CHECK(file->config.is_text_part);
        return std::string(file->config.model_type.view());
    };
    CHECK(type_of(R"({"model_type": "llava", "text_config": {"num_hidden_layers": 2}})") == "llama");
    CHECK(type_of(R"({"model_type": "mistral3", "text_config": {"num_hidden_layers": 2}})") == "mistral");
    CHECK(type_of(R"({"model_type": "qwen3_vl", "text_config": {"num_hidden_layers": 2}})") == "qwen3_vl_text");
    auto const flat =
        R"({"model_type": "qwen2_vl", "architectures": ["Qwen2VLForConditionalGeneration"], "num_hidden_layers": 2,
                          "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
                          "vocab_size": 99, "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]},
                          "vision_config": {"hidden_size": 64}})";
    CHECK(type_of(flat) == "qwen2_vl_text");
    auto const file = read_config(flat, "config.json");
    CHECK(file->config.hidden_size == 64);
    CHECK(file->config.rope.kind == RopeKind::standard);
    REQUIRE(file->warnings.size() == 1);
    CHECK(file->warnings[0] == "config.json: only the text model is counted");
    // Others keep their text models' keys apart: keys beside vision_config would be ignored.
    for (auto const* const whole : {"qwen3_vl", "gemma3", "llava", "mistral3"}) {
        auto const refused =
            read_config("{\"model_type\": \"" + std::string(whole) + "\", \"hidden_size\": 64}", "config.json");
        REQUIRE(!refused);
        CHECK(refused.error().code() == ErrorCode::unknown_name);
    }
}

// What transformers 4.57.6 and 5.23.0 do with lm_head where the two parts disagree: 4 asks the text model's config
// (get_text_config), 5 the whole's, whose default is tied (tests/golden/versions/saved-*.jsonl: small-mistral3).
TEST_CASE("read_config: whether the head of a whole model is tied is asked as the version that wrote the file asks") {
    auto const is_tied = [](std::string const& version, std::string const& whole, std::string const& part) {
        auto const file = read_config("{\"model_type\": \"mistral3\", \"transformers_version\": \"" + version + "\"" +
                                          whole + ", \"text_config\": {\"num_hidden_layers\": 2" + part + "}}",
                                      "config.json");
        REQUIRE(file);
        return file->config.tie_word_embeddings;
    };
    std::string const tied = ", \"tie_word_embeddings\": true";
    std::string const apart = ", \"tie_word_embeddings\": false";
    CHECK(is_tied("5.23.0", tied, apart));
    CHECK_FALSE(is_tied("5.23.0", apart, tied));
    CHECK_FALSE(is_tied("4.57.6", tied, apart));
    CHECK(is_tied("4.57.6", apart, tied));
    CHECK(is_tied("4.57.6", tied, ""));
    CHECK_FALSE(is_tied("4.57.6", "", ""));
}

TEST_CASE(
    "read_config: qwen3_next's layers with states are those of layer_types, else all but every n-th; impossible heads "
    "are refused") {
    auto const states_of = [](std::string const& more) {
        auto const file = read("qwen3_next", more);
        REQUIRE_MESSAGE(file, (file ? "" : file.error().message()));
        auto const model = describe(file->config);
        REQUIRE(model);
        // Once more of what is complete.
        auto const again = describe(model->config);
        REQUIRE(again);
        CHECK(again->config.local_layers == model->config.local_layers);
        std::string states;
        for (std::int64_t layer = 0; layer < 8; ++layer)
            states += model->config.local_layers.contains(layer) ? 'L' : 'F';
        return states;
    };
    CHECK(states_of("") == "LLLFLLLF");
    CHECK(states_of(R"(, "full_attention_interval": 3)") == "LLFLLFLL");
    std::string const full = R"("full_attention")";
    std::string const linear = R"("linear_attention")";
    std::string list = full;
    for (int i = 0; i < 7; ++i) list += ", " + linear;
    CHECK(states_of(", \"layer_types\": [" + list + "]") == "FLLLLLLL");
    CHECK(place_of_refusal("qwen3_next", ", \"layer_types\": [" + full + "]") == "layer_types");
    CHECK(place_of_refusal("qwen3_next", R"(, "layer_types": ["sliding_attention"])") == "layer_types");
    CHECK(place_of_refusal("qwen3_next", R"(, "linear_num_value_heads": 33)") == "linear_num_value_heads");
    CHECK(place_of_refusal("qwen3_next", R"(, "linear_conv_kernel_dim": 100000)") == "linear_conv_kernel_dim");
    ModelConfig empty;
    empty.model_type = "qwen3_next";
    CHECK(!describe(empty));
}
