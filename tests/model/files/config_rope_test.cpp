// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/op/rope_frequencies.hpp>

#include <doctest/doctest.h>

#include "config_text.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

using namespace shardwise;
using namespace shardwise::testing;

// Oracle: transformers 4.57.6 and 5.24.0, differences that random configurations found. Where the two disagree, 5.

namespace {

/// A small model of a family with more members.
std::string small(std::string const& type, std::string const& members) {
    return R"({"model_type": ")" + type +
           R"(", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 4,)"
           R"( "intermediate_size": 64, "vocab_size": 97, "max_position_embeddings": 256, )" +
           members + "}";
}
ModelConfig complete(std::string const& type, std::string const& members) {
    auto const described = describe(config_of(small(type, members)).config);
    REQUIRE_MESSAGE(described, (described ? "" : described.error().message()));
    return described->config;
}
RopeFrequencies frequencies_of(ModelConfig const& config, std::int64_t sequence) {
    static constexpr std::array<double, 4> short_list{1.0, 1.5, 2.0, 3.0};
    static constexpr std::array<double, 4> long_list{1.0, 4.0, 9.0, 20.0};
    auto const found = rope_frequencies(config.rope, {.rotary = 8,
                                                      .max_positions = config.max_positions,
                                                      .sequence = sequence,
                                                      .short_factors = short_list,
                                                      .long_factors = long_list});
    REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
    return *found;
}

}  // namespace

TEST_CASE("read_config: longrope's factor counts where it is given, else the context by the original one does") {
    auto const scale = [](std::string const& rope, std::string const& beside = "") {
        auto const config =
            complete("phi3", R"("rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1])" + rope +
                                 "}" + beside);
        return static_cast<double>(frequencies_of(config, 20).attention_factor);
    };
    auto const of = [](double factor, double original) {
        return std::sqrt(1.0 + std::log(factor) / std::log(original));
    };
    // phi3 itself: 256 by 64, which stands beside.
    CHECK(scale("", R"(, "original_max_position_embeddings": 64)") == doctest::Approx(of(4.0, 64.0)));
    CHECK(scale(R"(, "original_max_position_embeddings": 64)") == doctest::Approx(of(4.0, 64.0)));
    CHECK(scale(R"(, "factor": 2.0, "original_max_position_embeddings": 64)") == doctest::Approx(of(2.0, 64.0)));
    // As transformers 5 saves it: the original context is the model's own.
    CHECK(scale(R"(, "factor": 4.0, "original_max_position_embeddings": 256)") == doctest::Approx(of(4.0, 256.0)));
    CHECK(scale(R"(, "factor": 2.0)", R"(, "original_max_position_embeddings": 64)") == doctest::Approx(of(2.0, 64.0)));
}

TEST_CASE("read_config: an original context beside the dictionary counts for phi3's former names, yarn and llama3") {
    for (std::string const type : {"su", "yarn", "longrope"}) {
        CAPTURE(type);
        auto const config = complete("phi3", R"("original_max_position_embeddings": 64, "rope_scaling": {"type": ")" +
                                                 type + R"(", "short_factor": [1], "long_factor": [1]})");
        CHECK(config.rope.kind == RopeKind::longrope);
        CHECK(config.rope.original_max_positions == 64);
    }
    for (std::string const type : {"yarn", "llama3"}) {
        CAPTURE(type);
        auto const config =
            complete("llama", R"("original_max_position_embeddings": 64, "rope_scaling": {"rope_type": ")" + type +
                                  R"(", "factor": 4.0})");
        CHECK(config.rope.original_max_positions == 64);
    }
    CHECK(complete("llama", R"("original_max_position_embeddings": 64)").rope.original_max_positions == 0);
}

TEST_CASE("read_config: alpha stretches positions of hunyuan alone, whatever the sequence") {
    std::string const rope = R"("rope_scaling": {"type": "dynamic", "factor": 2.0, "alpha": 100.0})";
    auto const plain = R"("rope_scaling": {"type": "dynamic", "factor": 2.0})";
    for (std::string const type : {"llama", "qwen3"}) {
        CAPTURE(type);
        auto const more = ", \"head_dim\": 8";
        CHECK(frequencies_of(complete(type, rope + more), 20).per_pair ==
              frequencies_of(complete(type, plain + std::string(more)), 20).per_pair);
    }
    auto const hunyuan = complete("hunyuan_v1_dense", rope + R"(, "head_dim": 8, "rope_theta": 10000.0)");
    auto const made = frequencies_of(hunyuan, 20).per_pair;
    CHECK(made == frequencies_of(hunyuan, 5000).per_pair);
    CHECK(static_cast<double>(made[1]) ==
          doctest::Approx(std::pow(10000.0 * std::pow(100.0, 8.0 / 6.0), -2.0 / 8.0)).epsilon(1e-6));
}

TEST_CASE("read_config: layers that slide are those of layer_types, or what transformers 5 makes of other members") {
    std::string const types =
        R"("layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"])";
    auto const smollm = complete("smollm3", R"("use_sliding_window": false, "sliding_window": 7, )" + types);
    CHECK(smollm.sliding_window == 7);
    CHECK(smollm.local_layers.contains(0));
    CHECK_FALSE(smollm.local_layers.contains(1));
    CHECK(complete("smollm3", R"("use_sliding_window": false, "sliding_window": 7)").sliding_window == 0);
    std::string const qwen = R"("use_sliding_window": true, "sliding_window": 7, "max_window_layers": 2)";
    auto const moe = complete("qwen2_moe", qwen);
    CHECK(moe.local_layers.contains(0));
    for (std::int64_t const layer : {1, 2, 3}) CHECK_FALSE(moe.local_layers.contains(layer));
    CHECK(complete("qwen2_moe", qwen + ", " + types).local_layers.contains(2));
    CHECK(complete("qwen2_moe", R"("use_sliding_window": false, "sliding_window": 7)").sliding_window == 0);
    // transformers 4.57 knew no scaled positions of it.
    CHECK(complete("nemotron", R"("rope_scaling": {"rope_type": "linear", "factor": 1.5})").rope.kind ==
          RopeKind::linear);
}

TEST_CASE("read_config: of mt5 transformers 5 scales no outputs, whatever is tied; 4 scales those of a tied head") {
    auto const scales = [](std::string const& type, std::string const& members) {
        auto const described = describe(config_of(R"({"model_type": ")" + type + "\"" + members + "}").config);
        REQUIRE_MESSAGE(described, (described ? "" : described.error().message()));
        return described->config.own["scale_decoder_outputs"] != 0;
    };
    std::string const tied = R"(, "tie_word_embeddings": true)";
    CHECK(scales("mt5", tied));
    CHECK(scales("mt5", tied + R"(, "transformers_version": "4.57.6")"));
    CHECK_FALSE(scales("mt5", tied + R"(, "transformers_version": "5.24.0")"));
    CHECK_FALSE(scales("mt5", ""));
    CHECK(scales("t5", R"(, "transformers_version": "5.24.0")"));
    // umt5 is tied by default, and 5 writes what it scales.
    CHECK(scales("umt5", ""));
    CHECK_FALSE(scales("umt5", R"(, "tie_word_embeddings": false)"));
    CHECK_FALSE(scales("umt5", tied + R"(, "scale_decoder_outputs": false, "transformers_version": "5.24.0")"));
}
