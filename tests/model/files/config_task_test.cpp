// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/files/config_task.hpp>
#include <shardwise/model/files/model_source.hpp>

#include <doctest/doctest.h>

#include "../../support/temporary_folder.hpp"

#include <string>

using namespace shardwise;

namespace {

std::string refusal(std::string const& text) {
    auto const read = read_config(text, "c.json");
    if (read) return "";
    CHECK(read.error().code() == ErrorCode::unsupported);
    return read.error().message();
}

}  // namespace

TEST_CASE("config task: what is no language model is refused by what it is") {
    CHECK(refusal(R"({"_class_name": "FluxPipeline", "_diffusers_version": "0.30.0"})").find("a diffusion pipeline") !=
          std::string::npos);
    CHECK(refusal(R"({"_class_name": "UNet2DConditionModel"})").find("a part of a diffusion pipeline") !=
          std::string::npos);
    // grounding-dino has a text_config that describes a bert.
    auto const detector = refusal(R"({"model_type": "grounding-dino", "architectures": ["GroundingDinoForObjectDetection"],
                                      "text_config": {"model_type": "bert"}})");
    CHECK(detector.find("\"GroundingDinoForObjectDetection\" is an object detector, not a language model") !=
          std::string::npos);
    CHECK(refusal(R"({"model_type": "grounding-dino", "text_config": {"model_type": "bert"}})").find("detector") !=
          std::string::npos);
    CHECK(refusal(R"({"model_type": "x", "architectures": ["Wav2Vec2ForCTC"]})").find("a speech recogniser") !=
          std::string::npos);
    CHECK(refusal(R"({"model_type": "x", "architectures": ["InformerForPrediction"]})").find("time series") !=
          std::string::npos);
}

TEST_CASE("config task: classes of language are none of these") {
    for (std::string_view const name :
         {"LlamaForCausalLM", "BertForNextSentencePrediction", "BertForSequenceClassification", "T5EncoderModel",
          "LlavaForConditionalGeneration", "RobertaForTokenClassification", ""}) {
        CHECK(detail::task_of_class(name).empty());
    }
    CHECK(detail::task_of_class("MaskFormerForInstanceSegmentation") == "a segmentation model");
}

TEST_CASE("config task: a text part says that it is one") {
    std::string const text = R"({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"],
                                 "text_config": {"model_type": "llama", "num_hidden_layers": 2}, "vision_config": {}})";
    auto const part = read_config(text, "c.json");
    REQUIRE_MESSAGE(part.has_value(), part.error().message());
    CHECK(part->config.is_text_part);
    auto const whole = read_config(R"({"model_type": "llama", "num_hidden_layers": 2})", "c.json");
    REQUIRE(whole);
    CHECK_FALSE(whole->config.is_text_part);
}

TEST_CASE("config task: a folder with a pipeline's index is that pipeline") {
    testing::TemporaryFolder const folder;
    folder.write("model_index.json", R"({"_class_name": "StableDiffusion3Pipeline"})");
    folder.write("flux1-dev.safetensors", "");
    auto const source = detail::folder_source(folder.path(""), "pipeline");
    REQUIRE(source);
    CHECK(source->config == "model_index.json");
    // A config.json beside it counts.
    folder.write("config.json", "{}");
    auto const other = detail::folder_source(folder.path(""), "pipeline");
    REQUIRE(other);
    CHECK(other->config == "config.json");
}
