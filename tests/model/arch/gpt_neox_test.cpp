// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/gpt_neox.hpp>

#include <doctest/doctest.h>

#include "family.hpp"

using namespace shardwise;

// GPT-NeoX-20B: tests/golden/families/gpt-neox-20b.json, from the published config.json.
static_assert(family::parameters<GptNeoX>([](ModelConfig& config) { config.vocab_size = 50432; }) == 20'554'567'680);

TEST_CASE("gpt_neox: q, k and v lie side by side for every head, so whole heads are sharded") {
    auto const model = family::made<GptNeoX>(family::unchanged);
    auto const* packed = find_tensor(model.tree, "gpt_neox.layers.0.attention.query_key_value.weight");
    REQUIRE(packed != nullptr);
    CHECK(packed->shape == Shape{3 * 6144, 6144});
    CHECK(packed->shard == ShardRule::units(0, 64));
}

TEST_CASE("gpt_neox: the parallel form reads the layer's input twice, the sequential form the sum") {
    auto const second_norm_input = [](bool is_parallel) {
        auto const model =
            family::made<GptNeoX>([=](ModelConfig& config) { config.own.set("use_parallel_residual", is_parallel); });
        for (auto const& body : model.program.bodies()) {
            for (auto const& op : body.operations()) {
                if (op.parameters[0] == "post_attention_layernorm.weight") return op.inputs[0];
            }
        }
        return no_value;
    };
    CHECK(second_norm_input(true) == 0);
    CHECK(second_norm_input(false) > 0);
}

TEST_CASE("gpt_neox: a quarter of each head is rotated unless the config or GGUF says otherwise") {
    auto const frequencies = [](auto change) {
        return find_tensor(family::made<GptNeoX>(change).tree, "gpt_neox.rotary_emb.inv_freq")->shape[0];
    };
    CHECK(frequencies(family::unchanged) == 12);  // head 96, rotary_pct 0.25: 24 elements in pairs
    CHECK(frequencies([](ModelConfig& config) { config.rope.partial_rotary_factor = 1.0; }) == 48);
    CHECK(frequencies([](ModelConfig& config) { config.rotary_dim = 32; }) == 16);
}

TEST_CASE("gpt_neox: impossible rotations are refused by name") {
    CHECK(family::refusal<GptNeoX>([](ModelConfig& config) { config.rope.partial_rotary_factor = 1.5; }) ==
          "invalid_field rotary_pct");
    CHECK(family::refusal<GptNeoX>([](ModelConfig& config) { config.rotary_dim = 97; }) ==
          "invalid_field rope.dimension_count");
    CHECK(family::refusal<GptNeoX>([](ModelConfig& config) { config.heads = 63; }) == "invalid_field hidden_size");
}
