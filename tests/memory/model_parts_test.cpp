// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/model_parts.hpp>
#include <shardwise/memory/part_grains.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

using namespace shardwise;

namespace {

std::string listed(ModelConfig const& config, bool is_per_layer = false) {
    auto const model = *describe(config);
    std::string out;
    for (auto const& part : find_parts(model, is_per_layer).parts) {
        out += std::string(part.path.view());
        if (part.is_numbered) out += "[" + std::to_string(part.first) + "+" + std::to_string(part.count) + "]";
        out += "@" + std::to_string(part.layer) + " ";
    }
    return out;
}

}  // namespace

TEST_CASE("parts: layers are one run, other modules stand beside the layer that runs next to them") {
    CHECK(listed(presets::llama_3_8b) ==
          "model.embed_tokens@0 model.layers[0+32]@0 model.norm@31 model.rotary_emb@31 lm_head@31 ");
}

TEST_CASE("parts: runs are cut where layers differ") {
    CHECK(listed(presets::deepseek_v3).find("model.layers[0+3]@0 model.layers[3+58]@3 ") != std::string::npos);
    // gemma2 alternates window and full attention.
    CHECK(listed(presets::gemma_2_2b).find("model.layers[0+1]@0 model.layers[1+1]@1 ") != std::string::npos);
}

TEST_CASE("parts: a norm that is registered before the layers still stands where it runs") {
    CHECK(listed(presets::opt_125m).find("model.decoder.final_layer_norm@11 ") != std::string::npos);
}

TEST_CASE("parts: an encoder's norm stands at its end, a decoder's at the model's") {
    auto const parts = listed(presets::t5_small);
    CHECK(parts.find("encoder.final_layer_norm@5 ") != std::string::npos);
    CHECK(parts.find("decoder.final_layer_norm@11 ") != std::string::npos);
    CHECK(parts.find("shared@0 ") != std::string::npos);
}

TEST_CASE("parts: mixtures by layer have each layer by itself") {
    auto const parts = listed(presets::llama_3_8b, true);
    CHECK(parts.find("model.layers[0+1]@0 model.layers[1+1]@1 ") != std::string::npos);
    CHECK(parts.find("model.layers[31+1]@31 ") != std::string::npos);
}

TEST_CASE("parts: ties connect the parts of both names") {
    auto const model = *describe(presets::gemma_2b);
    auto const parts = find_parts(model);
    REQUIRE(parts.ties.size() == 1);
    CHECK(parts.parts[parts.ties[0].first].path.view() == "model.embed_tokens");
    CHECK(parts.parts[parts.ties[0].other].path.view() == "lm_head");
    CHECK(parts.ties[0].position.class_name == "Linear");
    CHECK(parts.layers == 18);
}

TEST_CASE("parts: every preset's layers are counted once") {
    for (auto const& preset : model_presets) {
        CAPTURE(preset.name);
        auto const model = *describe(*preset.config);
        auto const parts = find_parts(model);
        std::int64_t layers = 0;
        for (auto const& part : parts.parts) {
            if (part.role != ModuleRole::layer) continue;
            CHECK(part.layer == layers);
            CHECK(part.body >= 0);
            layers += part.count;
        }
        CHECK(layers == parts.layers);
    }
}

TEST_CASE("parts: layers whose blocks have unlike sizes run the body cut in unlike ways, and are visited so") {
    auto config = presets::llama_3_8b;
    config.hidden_size = 512;
    config.intermediate_size = 1536;
    config.layers = 16;
    auto const model = *describe(config);
    // llama.cpp's mixture has Q5_K in the first eighth of ffn_down, whose blocks of 256 inputs stay whole. IQ4_NL is held decoded, so that
    // elsewhere each stands alone.
    auto const parts = request_parts(model, {.quant = *parse_quant_scheme("IQ4_NL")});
    auto const plain = model.program.bodies().size();
    REQUIRE(parts.bodies.size() == plain + 1);
    std::int32_t layer_body = -1;
    for (auto const& block : model.program.blocks())
        if (block.is_numbered) layer_body = block.body;
    auto const& first = parts.bodies[static_cast<std::size_t>(layer_body)].grains;
    auto const& rest = parts.bodies.back();
    CHECK(rest.body == layer_body);
    std::int64_t most = 0;
    REQUIRE(first.size() == rest.grains.size());
    for (std::size_t id = 0; id < first.size(); ++id) most = std::max(most, first[id].units / rest.grains[id].units);
    CHECK(most == 256);
    std::string visited;
    parts.for_each_block(model.program, 1, 16, [&](std::size_t body, std::int64_t count) {
        if (parts.bodies[body].body != layer_body) return;
        visited += (body < plain ? "first " : "rest ") + std::to_string(count) + " ";
    });
    CHECK(visited == "first 1 rest 14 ");
}
